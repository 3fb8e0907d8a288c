// SPDX-License-Identifier: Apache-2.0
// The state of a save that all threads see: its two futures and its end;
// internal to manager/.
#ifndef CKPTDB_MANAGER_SAVE_PENDING_SAVE_STATE_H_
#define CKPTDB_MANAGER_SAVE_PENDING_SAVE_STATE_H_

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <thread>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "db/base/home_process.h"
#include "db/base/mutex.h"
#include "manager/internal/step_shipping.h"
#include "manager/results.h"

namespace ckptdb {

// Thread-safe.
class PendingSave::State {
 public:
  // Must be constructed on the training thread. `cancelled` may be null:
  // WaitStaged, WaitFinished and WaitShipped poll it, and WaitEnded if
  // requested. `shipping` is null unless this rank ships.
  explicit State(int64_t step, std::function<bool()> cancelled = {},
                 std::shared_ptr<internal::StepShipping> shipping = nullptr)
      : step_(step),
        cancelled_(std::move(cancelled)),
        shipping_(std::move(shipping)),
        trainer_(std::this_thread::get_id()) {}

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

  // In a forked child, where no save ends, these return FailedPrecondition.
  absl::Status WaitStaged(absl::Duration timeout);
  absl::StatusOr<SaveResult> WaitFinished(absl::Duration timeout);
  absl::Status WaitShipped(absl::Time deadline);
  // Does not poll. Returns whether the save was staged, or could not be.
  bool StagedWithin(std::chrono::milliseconds time);
  // Returns whether the training thread has received the error of WaitFinished.
  bool error_taken() const { return error_taken_; }
  // False in a forked child.
  bool finished();
  // Returns DeadlineExceeded if it has not ended by then; otherwise the error
  // of End.
  absl::Status WaitEnded(absl::Duration timeout, bool poll);
  bool ended();

  // Makes the save fail with Cancelled. Returns false if it is too late.
  bool Cancel() {
    Phase open = Phase::kOpen;
    return phase_.compare_exchange_strong(open, Phase::kCancelled) ||
           open == Phase::kCancelled;
  }
  bool cancelled() const { return phase_ == Phase::kCancelled; }
  // Called before this rank's part may be committed. Returns false if the save
  // was cancelled; otherwise it is too late from now on.
  bool BeginCommit() {
    Phase open = Phase::kOpen;
    return phase_.compare_exchange_strong(open, Phase::kCommitting) ||
           open == Phase::kCommitting;
  }

 private:
  enum class Phase : uint8_t { kOpen, kCancelled, kCommitting };

  // Waits until `value` is set. Returns DeadlineExceeded, saying that the step
  // is not `what`, if it is not set by then, and the error of polling. Releases
  // the mutex while it waits and polls.
  template <typename Value>
  absl::Status WaitFor(const std::optional<Value>& value,
                       absl::Duration timeout, const char* what, bool poll)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const internal::HomeProcess home_;
  const int64_t step_;
  const std::function<bool()> cancelled_;
  const std::shared_ptr<internal::StepShipping> shipping_;
  const std::thread::id trainer_;
  std::atomic<Phase> phase_ = Phase::kOpen;
  std::atomic<bool> error_taken_ = false;
  internal::Mutex mutex_;
  internal::ConditionVariable changed_;
  std::optional<absl::Status> staged_ ABSL_GUARDED_BY(mutex_);
  std::optional<absl::StatusOr<SaveResult>> result_ ABSL_GUARDED_BY(mutex_);
  std::optional<absl::Status> end_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace ckptdb

#endif  // CKPTDB_MANAGER_SAVE_PENDING_SAVE_STATE_H_
