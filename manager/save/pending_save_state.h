// SPDX-License-Identifier: Apache-2.0
// The state of a save that all threads see: its two futures and its end;
// internal to manager/.
#ifndef CKPTDB_MANAGER_SAVE_PENDING_SAVE_STATE_H_
#define CKPTDB_MANAGER_SAVE_PENDING_SAVE_STATE_H_

#include <atomic>
#include <cstdint>
#include <optional>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "db/base/mutex.h"
#include "manager/results.h"

namespace ckptdb {

// Thread-safe.
class PendingSave::State {
 public:
  // Must be constructed on the training thread.
  explicit State(int64_t step)
      : step_(step), trainer_(std::this_thread::get_id()) {}

  int64_t step() const { return step_; }

  // Called when the save was staged or could not be; at most once, before
  // Finish.
  void SetStaged(const absl::Status& status);
  // Called when the save is committed or has failed. If it was not staged by
  // then, staging has failed.
  void Finish(const absl::StatusOr<SaveResult>& result);

  // Ends the save: no part of it and no callback runs on this rank any more.
  // `error` is the error to report: OK for a save that succeeded or whose
  // failure is tolerated.
  void End(const absl::Status& error);

  absl::Status WaitStaged(absl::Duration timeout);
  absl::StatusOr<SaveResult> WaitFinished(absl::Duration timeout);
  // Returns whether the training thread has received the error of WaitFinished.
  bool error_taken() const { return error_taken_; }
  bool finished();
  // Returns DeadlineExceeded if it has not ended by then; otherwise the error
  // of End.
  absl::Status WaitEnded(absl::Duration timeout);
  bool ended();

  void Cancel() { cancelled_ = true; }
  bool cancelled() const { return cancelled_; }

 private:
  // Waits until `value` is set. Returns DeadlineExceeded, saying that the step
  // is not `what`, if it is not set by then.
  template <typename Value>
  absl::Status WaitFor(const std::optional<Value>& value,
                       absl::Duration timeout, const char* what)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const int64_t step_;
  const std::thread::id trainer_;
  std::atomic<bool> cancelled_ = false;
  std::atomic<bool> error_taken_ = false;
  internal::Mutex mutex_;
  internal::ConditionVariable changed_;
  std::optional<absl::Status> staged_ ABSL_GUARDED_BY(mutex_);
  std::optional<absl::StatusOr<SaveResult>> result_ ABSL_GUARDED_BY(mutex_);
  std::optional<absl::Status> end_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace ckptdb

#endif  // CKPTDB_MANAGER_SAVE_PENDING_SAVE_STATE_H_
