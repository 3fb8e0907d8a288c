// SPDX-License-Identifier: Apache-2.0
// Runs the saves of a manager, one at a time; internal to manager/.
#ifndef CKPTDB_MANAGER_CORE_SAVE_RUNNER_H_
#define CKPTDB_MANAGER_CORE_SAVE_RUNNER_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "db/base/call_gate.h"
#include "db/base/mutex.h"
#include "manager/core/decision_maker.h"
#include "manager/core/error_ledger.h"
#include "manager/core/manager_parts.h"
#include "manager/core/preemption.h"
#include "manager/core/reporter.h"
#include "manager/core/warnings.h"
#include "manager/policy/history.h"
#include "manager/policy/retirement.h"
#include "manager/save/arena.h"
#include "manager/save/save_operation.h"
#include "manager/save/save_publisher.h"
#include "manager/save/save_thread.h"
#include "manager/state/save_lineage.h"
#include "manager/state/training_progress.h"

namespace ckptdb::internal {

// Owns the save in progress, the thread that saves run on, and the staging
// memory. A save ends twice: first on the thread that ran it, which reports it
// and wakes all who wait; then on the training thread, in FinishSave, which
// applies its consequences.
//
// current() and in_progress() are thread-safe; the rest belongs to the training
// thread.
class SaveRunner {
 public:
  // The parts that a save uses or updates. All outlive the runner.
  struct Dependencies {
    CallGate* calls;  // a save counts as a call of the manager
    const TrainingProgress* progress;
    Preemption* preemption;
    SaveLineage* lineage;
    DecisionMaker* decisions;
    Retirement* retirement;
    History* history;
    Reporter* reporter;
  };

  SaveRunner(ManagerParts* parts, const Dependencies& deps);
  ~SaveRunner();
  SaveRunner(const SaveRunner&) = delete;
  SaveRunner& operator=(const SaveRunner&) = delete;

  // When a wait polls ManagerOptions::observers.cancelled: in calls that all
  // ranks make, only if the rank is alone, as one rank alone must not leave
  // them.
  enum class Poll { kNever, kAlone, kAlways };

  // Saves the model: in the background if ManagerOptions::save.async is set and
  // a thread can be created, returning when the model may change; otherwise
  // returning when the save has ended. A save that could not begin also ends
  // here. The previous save must have been finished.
  //
  // A rank that is alone polls, and returns Cancelled: then the save has failed
  // with Cancelled, too, or runs in the background because it was too late.
  // Whatever is returned, current() is this save.
  absl::Status Start(SaveStart start);
  // Returns whether the save that was started last runs in the background.
  bool in_background() const { return in_background_; }

  // Returns the save that was begun last; null before the first.
  std::shared_ptr<PendingSave::State> current() const;
  // Returns whether that save has neither committed nor failed.
  bool in_progress() const;
  // Returns the step of the unfinished save, if any.
  std::optional<StepInfo> unfinished() const;
  // Returns whether there is such a save, and it answers a preemption.
  bool answers_preemption() const {
    return operation_ != nullptr && operation_->answers_preemption();
  }

  // Waits for the started save to end and applies its outcome: the next save
  // continues from the committed step, or includes the failed save's changes.
  // Adds the time to *wait_micros, unless null, if a save ran in the
  // background. Returns the error of polling; the save then continues.
  absl::Status FinishSave(Poll poll,
                          std::optional<int64_t>* wait_micros = nullptr);
  // Cancels the started save, if any, without waiting for it.
  void Cancel() {
    if (operation_ != nullptr) operation_->pending()->Cancel();
  }

  // Stops the save thread. No save may be unfinished.
  void Stop() { thread_.Stop(); }

 private:
  const std::function<bool()>& Polled(Poll poll) const;
  bool StartInBackground();
  absl::Status AwaitOwnSave();
  bool CancelSave();
  void RunOperation();
  // Ends the operation, on the thread that has run it.
  void EndOperation();
  absl::Status NoteError();
  void ApplyOutcome();
  // Counts a failure, on the training thread.
  void NoteFailure(SaveOperation* operation);

  ManagerParts* const parts_;
  const Dependencies deps_;
  Arena arena_;
  SavePublisher publisher_;
  const SaveEnvironment environment_;
  std::unique_ptr<SaveOperation> operation_;
  bool in_background_ = false;  // operation_ runs on the save thread
  // The call that began the save has returned Cancelled, too late to cancel it.
  std::atomic<bool> left_ = false;
  bool tolerated_ = false;  // the save succeeded or its failure is tolerated
  int64_t failures_in_a_row_ = 0;
  bool warned_of_pinning_ = false;

  mutable Mutex mutex_;
  std::shared_ptr<PendingSave::State> current_ ABSL_GUARDED_BY(mutex_);

  SaveThread thread_;  // destroyed first: it uses all of the above
};

}  // namespace ckptdb::internal

#endif  // CKPTDB_MANAGER_CORE_SAVE_RUNNER_H_
