// SPDX-License-Identifier: Apache-2.0
#include "manager/checkpoint_manager.h"

#include <cstdint>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "db/base/call_guard.h"
#include "manager/core/manager_impl.h"
#include "manager/core/manager_parts.h"
#include "manager/ranks/guarded_coordinator.h"
#include "schema/status.h"

namespace ckptdb {

absl::StatusOr<std::unique_ptr<CheckpointManager>> CheckpointManager::Open(
    const ManagerOptions& options, ModelState* model,
    std::unique_ptr<Coordinator> ranks) {
  using Opened = absl::StatusOr<std::unique_ptr<CheckpointManager>>;
  return internal::CallGuarded("CheckpointManager::Open", [&]() -> Opened {
    CKPTDB_ASSIGN_OR_RETURN(ranks,
                            internal::GuardCoordinator(std::move(ranks)));
    CKPTDB_ASSIGN_OR_RETURN(
        std::unique_ptr<internal::ManagerParts> parts,
        internal::OpenManagerParts(options, model, std::move(ranks)));
    return std::unique_ptr<CheckpointManager>(
        new CheckpointManager(std::make_unique<Impl>(std::move(parts))));
  });
}

CheckpointManager::CheckpointManager(std::unique_ptr<Impl> impl)
    : impl_(std::move(impl)) {}
// A forked child leaks the manager instead of destroying it: the threads that
// the destructor would join exist only in the parent.
CheckpointManager::~CheckpointManager() {
  if (impl_ != nullptr) impl_->gate().home().KeepInChild(&impl_);
}

absl::Status CheckpointManager::Close() {
  CKPTDB_RETURN_IF_ERROR(impl_->gate().Close("CheckpointManager::Close",
                                             [&] { return impl_->Close(); }));
  return impl_->StopShipping();  // an earlier call may have been cancelled
}
absl::Status CheckpointManager::StartTraining() {
  return impl_->gate().Enter("StartTraining",
                             [&] { return impl_->StartTraining(); });
}
absl::Status CheckpointManager::FinishTraining() {
  return impl_->gate().Enter("FinishTraining",
                             [&] { return impl_->FinishTraining(); });
}
int64_t CheckpointManager::global_step() const { return impl_->global_step(); }
absl::StatusOr<StepOutcome> CheckpointManager::Step(
    const Metrics& metrics, const UserMetadata& user_metadata) {
  const int64_t step = impl_->global_step();
  if (step == std::numeric_limits<int64_t>::max()) {
    return absl::FailedPreconditionError(
        absl::StrCat("CheckpointManager::Step: step ", step,
                     " is the highest possible step"));
  }
  return StepTo(step + 1, metrics, user_metadata);
}
absl::StatusOr<StepOutcome> CheckpointManager::StepTo(
    int64_t step, const Metrics& metrics, const UserMetadata& user_metadata) {
  return impl_->gate().Enter(
      "Step", [&] { return impl_->StepTo(step, metrics, user_metadata); });
}
absl::StatusOr<SavePolicy::Decision> CheckpointManager::ShouldSave(
    int64_t step, const Metrics& metrics) {
  return impl_->gate().Enter("ShouldSave",
                             [&] { return impl_->ShouldSave(step, metrics); });
}
absl::StatusOr<PendingSave> CheckpointManager::Save(
    const SaveRequest& request) {
  return impl_->gate().Enter("Save", [&] { return impl_->Save(request); });
}
absl::StatusOr<RestoreReport> CheckpointManager::Restore(
    const RestoreRequest& request) {
  return impl_->gate().Enter("Restore",
                             [&] { return impl_->Restore(request); });
}
absl::StatusOr<RestoreReport> CheckpointManager::RestoreOrStart(
    const RestoreRequest& request) {
  return impl_->gate().Enter("RestoreOrStart",
                             [&] { return impl_->RestoreOrStart(request); });
}
absl::Status CheckpointManager::AbandonSteps() {
  return impl_->gate().Enter("AbandonSteps",
                             [&] { return impl_->AbandonSteps(); });
}
absl::StatusOr<RestoreReport> CheckpointManager::WaitForStep(
    absl::Duration timeout) {
  return impl_->gate().Enter("WaitForStep",
                             [&] { return impl_->WaitForStep(timeout); });
}
absl::StatusOr<Version> CheckpointManager::AwaitStep(absl::Duration timeout) {
  return impl_->gate().Enter("AwaitStep",
                             [&] { return impl_->AwaitStep(timeout); });
}
absl::StatusOr<RestoreReport> CheckpointManager::ApplyStep() {
  return impl_->gate().Enter("ApplyStep", [&] { return impl_->ApplyStep(); });
}
absl::StatusOr<LoadSummary> CheckpointManager::Load(
    const std::vector<LoadRule>& rules, bool dry_run) {
  return impl_->gate().Enter("Load",
                             [&] { return impl_->Load(rules, dry_run); });
}
std::string RestoreReport::ToString() const {
  if (fresh) {
    return absl::StrCat("fresh start: store \"", store, "\" has no step");
  }
  std::string text =
      absl::StrCat("restored step ", version.step, " from \"", store, "\"");
  if (!damaged_steps.empty()) {
    absl::StrAppend(&text, "; skipped damaged steps ",
                    absl::StrJoin(damaged_steps, ", "));
  }
  return text;
}
bool CheckpointManager::IsSavingInProgress() const {
  // In a forked child the save in progress is the parent's, and its lock may
  // never be released.
  if (impl_->gate().home().IsForked()) return false;
  return impl_->IsSavingInProgress();
}
// These two bypass the gate, which takes a lock: a signal handler may call the
// first.
void CheckpointManager::SetPreempted() { impl_->SetPreempted(); }
bool CheckpointManager::preempted() const { return impl_->preempted(); }
// These two enter the gate themselves, as they behave differently on a thread
// that does not train.
absl::Status CheckpointManager::CheckForErrors() {
  return impl_->CheckForErrors();
}
absl::Status CheckpointManager::WaitUntilFinished() {
  return impl_->WaitUntilFinished();
}
absl::StatusOr<StepExplanation> CheckpointManager::Explain(int64_t step) const {
  return impl_->gate().Look("Explain", [&] { return impl_->Explain(step); });
}
absl::Status CheckpointManager::Delete(int64_t step) {
  return impl_->gate().Enter("Delete", [&] { return impl_->Delete(step); });
}
absl::StatusOr<StepRecord> CheckpointManager::BestStep() {
  return impl_->gate().Look("BestStep", [&] { return impl_->BestStep(); });
}
absl::StatusOr<ShippingStatistics> CheckpointManager::Shipping() const {
  return impl_->gate().Look("Shipping", [&] { return impl_->Shipping(); });
}
EvaluationState* CheckpointManager::evaluation() { return impl_->evaluation(); }
Store* CheckpointManager::store() { return impl_->store(); }
Reader* CheckpointManager::reader() { return impl_->reader(); }

}  // namespace ckptdb
