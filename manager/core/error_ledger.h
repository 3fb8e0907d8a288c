// Keeps the errors that are yet to be reported; internal to manager/.
#ifndef CKPTDB_MANAGER_CORE_ERROR_LEDGER_H_
#define CKPTDB_MANAGER_CORE_ERROR_LEDGER_H_

#include <memory>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "ckptdb/db/base/mutex.h"
#include "ckptdb/manager/save/pending_save_state.h"

namespace ckptdb::internal {

// Keeps errors that no caller was there to get: of a save beside the training,
// and of callbacks. The first error of each kind is kept until it is taken.
// Thread-safe: the thread of saves adds errors, the training thread takes them,
// any thread may peek.
class ErrorLedger {
 public:
  // The error of a save that is not tolerated.
  void NoteSave(std::shared_ptr<PendingSave::State> save, absl::Status error);
  // Adds the exception of a callback; OK is ignored. It changes nothing of what
  // was done.
  void NoteCallback(const absl::Status& status);
  // Adds the reason why a line of the log of statistics is missing; OK is
  // ignored.
  void NoteStatistics(const absl::Status& status);

  // These forget what they return. An error of a save that
  // PendingSave::WaitCommitted has given to the training thread is OK here.
  absl::Status TakeSaveError();
  absl::Status TakeCallbackError();
  absl::Status TakeStatisticsError();
  // Takes an error of a save, or where there is none that of a callback.
  absl::Status TakeError();

  // Returns what TakeError would return.
  absl::Status PeekError() const;

 private:
  struct SaveError {
    std::shared_ptr<PendingSave::State> save;
    absl::Status error;
  };

  mutable Mutex mutex_;
  SaveError save_error_ ABSL_GUARDED_BY(mutex_);
  absl::Status callback_error_ ABSL_GUARDED_BY(mutex_);
  absl::Status statistics_error_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace ckptdb::internal

#endif  // CKPTDB_MANAGER_CORE_ERROR_LEDGER_H_
