// A save that goes on beside the training.
//
//   CKPTDB_ASSIGN_OR_RETURN(PendingSave save, manager->Save());
//   CKPTDB_RETURN_IF_ERROR(save.WaitStaged());  // the model may change now
//   CKPTDB_ASSIGN_OR_RETURN(SaveResult result, save.WaitCommitted());
//
// Copies are of the same save. Thread-safe.
#ifndef CKPTDB_MANAGER_PENDING_SAVE_H_
#define CKPTDB_MANAGER_PENDING_SAVE_H_

#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "ckptdb/db/store.h"

namespace ckptdb {

class PendingSave {
 public:
  class State;
  explicit PendingSave(std::shared_ptr<State> state)
      : state_(std::move(state)) {}

  int64_t step() const;

  // Until nothing reads the model any more; OK also when the save fails later.
  // DeadlineExceeded when that takes longer than `timeout`.
  absl::Status WaitStaged(
      absl::Duration timeout = absl::InfiniteDuration()) const;

  // Until the step is durable on all ranks' behalf, or has failed, which is the
  // same error on all ranks. The result is that of the owner, on all ranks. On
  // the thread that began the save the error counts as told: no call of the
  // manager says it again on this rank, unless another rank was not told.
  absl::StatusOr<SaveResult> WaitCommitted(
      absl::Duration timeout = absl::InfiniteDuration()) const;

  bool committed_or_failed() const;

  // Asks for the end: if it is not too late the save fails with Cancelled, on
  // all ranks, and the store is as it was.
  void Cancel();

 private:
  std::shared_ptr<State> state_;
};

}  // namespace ckptdb

#endif  // CKPTDB_MANAGER_PENDING_SAVE_H_
