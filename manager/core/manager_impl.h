// SPDX-License-Identifier: Apache-2.0
// Assembles the parts of a manager; internal to manager/.
#ifndef CKPTDB_MANAGER_CORE_MANAGER_IMPL_H_
#define CKPTDB_MANAGER_CORE_MANAGER_IMPL_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "db/base/exit_task.h"
#include "manager/checkpoint_manager.h"
#include "manager/core/decision_maker.h"
#include "manager/core/manager_gate.h"
#include "manager/core/manager_parts.h"
#include "manager/core/preemption.h"
#include "manager/core/reporter.h"
#include "manager/core/save_runner.h"
#include "manager/core/step_coordinator.h"
#include "manager/load/restorer.h"
#include "manager/policy/history.h"
#include "manager/policy/retirement.h"
#include "manager/save/evaluation_store.h"
#include "manager/state/save_lineage.h"
#include "manager/state/training_progress.h"

namespace ckptdb {

// Checks calls and forwards them. Each member uses only members declared above
// it.
//
// Calls that enter the gate with Enter belong to the training thread; any
// thread may make the others.
class CheckpointManager::Impl {
 public:
  explicit Impl(std::unique_ptr<internal::ManagerParts> parts);

  internal::ManagerGate& gate() { return gate_; }

  // The following are called by the training thread.
  absl::StatusOr<StepOutcome> StepTo(int64_t step, const Metrics& metrics,
                                     const UserMetadata& user_metadata);
  absl::StatusOr<SavePolicy::Decision> ShouldSave(int64_t step,
                                                  const Metrics& metrics);
  absl::StatusOr<PendingSave> Save(const SaveRequest& request);
  absl::Status StartTraining();
  absl::Status FinishTraining();
  absl::StatusOr<RestoreReport> Restore(const RestoreRequest& request);
  absl::StatusOr<RestoreReport> RestoreOrStart(const RestoreRequest& request);
  absl::Status AbandonSteps();
  absl::StatusOr<RestoreReport> WaitForStep(absl::Duration timeout);
  absl::StatusOr<Version> AwaitStep(absl::Duration timeout);
  absl::StatusOr<RestoreReport> ApplyStep();
  absl::StatusOr<LoadSummary> Load(const std::vector<LoadRule>& rules,
                                   bool dry_run);
  absl::Status Delete(int64_t step);
  absl::Status Close();
  absl::Status StopShipping();

  // The following may be called by any thread.
  int64_t global_step() const { return progress_.global_step(); }
  bool IsSavingInProgress() const { return saves_.in_progress(); }
  void SetPreempted() { preemption_.Set(); }
  bool preempted() const { return preemption_.preempted(); }
  absl::Status CheckForErrors();
  absl::Status WaitUntilFinished();
  absl::StatusOr<StepExplanation> Explain(int64_t step) const;
  absl::StatusOr<StepRecord> BestStep() const;
  absl::StatusOr<ShippingStatistics> Shipping() const;
  EvaluationState* evaluation() { return &evaluation_; }
  // A closed store is kept for callers that hold a pointer to it.
  Store* store() {
    return gate_.calls().closed() ? nullptr : parts_->store.get();
  }
  Reader* reader() { return parts_->reader.get(); }

 private:
  using Poll = internal::SaveRunner::Poll;
  using Wanted = internal::StepCoordinator::Wanted;

  bool read_only() const { return parts_->options.read_only; }
  // Returns FailedPrecondition unless this rank owns the store.
  absl::Status CheckOwner(absl::string_view what) const;
  // Returns FailedPrecondition if the manager is read-only.
  absl::Status CheckWritable(absl::string_view what) const;
  // Returns FailedPrecondition unless the manager is read-only.
  absl::Status CheckReadOnly(absl::string_view what) const;
  absl::StatusOr<StepOutcome> CountStep(int64_t step);
  // Saves the last step if it is not saved yet, and returns all errors.
  absl::Status SaveLastStep();
  // Makes the last step permanent if this run has saved it as ephemeral.
  absl::Status MakeLastStepPermanent();
  // Finishes the previous save, and returns the error to report.
  absl::Status FinishSaveAndTakeError(Poll poll);
  // Returns Cancelled if AwaitStep must not wait any longer.
  absl::Status PollAwaiting() const;
  void NoteRestored(const RestoreReport& report);
  // Warns if a model restored from another store cannot be saved in this one.
  void WarnOfNewerSteps(const RestoreReport& report);
  void WaitAtExit();
  void WarnOfShipping();
  // Waits in Close for the newest step to be shipped. Returns the error of
  // polling.
  absl::Status AwaitShipping();

  const std::unique_ptr<internal::ManagerParts> parts_;
  internal::ManagerGate gate_;
  internal::TrainingProgress progress_;
  SaveRequest last_step_;  // the metrics and metadata given to the last Step
  internal::Preemption preemption_;
  internal::History history_;
  internal::Retirement retirement_;
  internal::Reporter reporter_;
  internal::SaveLineage lineage_;
  internal::DecisionMaker decisions_;
  internal::Restorer restorer_;
  internal::EvaluationStore evaluation_;
  internal::SaveRunner saves_;
  internal::StepCoordinator steps_;
  // Waits for the save in progress when exit() is called. Unset in a read-only
  // manager.
  std::optional<internal::ExitTask> exit_task_;
};

}  // namespace ckptdb

#endif  // CKPTDB_MANAGER_CORE_MANAGER_IMPL_H_
