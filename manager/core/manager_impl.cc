// SPDX-License-Identifier: Apache-2.0
#include "manager/core/manager_impl.h"

#include <chrono>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "db/base/call_guard.h"
#include "manager/core/explain_step.h"
#include "manager/state/micros_since.h"
#include "manager/state/poll_cancelled.h"
#include "schema/status.h"

namespace ckptdb {
namespace {

SavePolicy::Decision ReadOnlyDecision() {
  return {SavePolicy::Kind::kNone, "not saved: the manager is read-only"};
}

}  // namespace

CheckpointManager::Impl::Impl(std::unique_ptr<internal::ManagerParts> parts)
    : parts_(std::move(parts)),
      gate_(parts_->options.path, &parts_->calls),
      retirement_(parts_->options.retention, parts_->shipping.get(),
                  parts_->options.ship.keep_unshipped),
      reporter_(parts_->options, parts_->is_owner(), &history_,
                &parts_->errors),
      lineage_(parts_->newest_at_open),
      decisions_(parts_->options, parts_->store.get(), &lineage_),
      restorer_({parts_->options, *parts_->model, parts_->shardings,
                 parts_->shard(), parts_->ranks.get(), parts_->store.get(),
                 parts_->reader.get(), parts_->feed.get(), &lineage_}),
      evaluation_(parts_->options.path, parts_->store.get(),
                  parts_->reader.get(), parts_->ranks.get(),
                  parts_->options.ranks.deadline),
      saves_(parts_.get(), {&gate_.calls(), &progress_, &preemption_, &lineage_,
                            &decisions_, &retirement_, &history_, &reporter_}),
      steps_({parts_.get(), &progress_, &preemption_, &lineage_, &decisions_,
              &saves_, &history_}) {
  const ManagerOptions& options = parts_->options;
  // Created after the store's own task, and so runs before it.
  if (!read_only()) exit_task_.emplace([this] { WaitAtExit(); });
  gate_.NoteTrainingThread();
  if (parts_->is_owner() && options.save.enabled &&
      !options.schedule.permanent.has_value() &&
      !options.schedule.ephemeral.has_value()) {
    parts_->warnings.WarnOfSchedule();
  }
  if (parts_->store != nullptr) parts_->warnings.WarnOfPosts(*parts_->store);
}

// Counts the step first: a step that does not ascend is refused before this
// rank meets the others.
absl::StatusOr<StepOutcome> CheckpointManager::Impl::StepTo(
    int64_t step, const Metrics& metrics, const UserMetadata& user_metadata) {
  if (read_only()) return CountStep(step);
  CKPTDB_RETURN_IF_ERROR(progress_.Count(step));
  preemption_.ForgetPromoted();
  last_step_ = SaveRequest();
  last_step_.metrics = metrics;
  last_step_.user_metadata = user_metadata;
  WarnOfShipping();
  CKPTDB_ASSIGN_OR_RETURN(StepOutcome outcome,
                          steps_.DecideAndSave(std::nullopt, last_step_));
  preemption_.SetLastStep(outcome.preempted);
  return outcome;
}

// A warning is due at any step, as saves may be hours apart.
void CheckpointManager::Impl::WarnOfShipping() {
  if (parts_->shipping == nullptr) return;
  parts_->warnings.WarnOfShipping(parts_->shipping->statistics());
}

absl::StatusOr<StepOutcome> CheckpointManager::Impl::CountStep(int64_t step) {
  CKPTDB_RETURN_IF_ERROR(progress_.Count(step));
  // Deltas apply only to a model that still equals the step that they start
  // from.
  lineage_.RequireBase("the model was trained");
  return StepOutcome{step, ReadOnlyDecision(), std::nullopt, preempted()};
}

absl::StatusOr<SavePolicy::Decision> CheckpointManager::Impl::ShouldSave(
    int64_t step, const Metrics& metrics) {
  if (step < 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "ShouldSave: step ", step, " is negative; steps are at least 0"));
  }
  if (read_only()) return ReadOnlyDecision();
  return steps_.WouldSave(step, metrics);
}

absl::StatusOr<PendingSave> CheckpointManager::Impl::Save(
    const SaveRequest& request) {
  CKPTDB_RETURN_IF_ERROR(CheckWritable("Save"));
  if (!parts_->options.save.enabled) {
    return absl::FailedPreconditionError(absl::StrCat(
        "Save: step ", global_step(), " of store \"", parts_->options.path,
        "\" is not saved: ManagerOptions::save.enabled is false"));
  }
  CKPTDB_ASSIGN_OR_RETURN(
      const StepOutcome outcome,
      steps_.DecideAndSave(Wanted{{request.kind, request.reason}}, request));
  // The caller has requested this save, so a decision against it is an error.
  if (outcome.save.has_value()) return *outcome.save;
  return absl::FailedPreconditionError(absl::StrCat(
      "step ", outcome.step, " is not saved: ", outcome.decision.reason));
}

absl::Status CheckpointManager::Impl::StartTraining() {
  const ManagerOptions& options = parts_->options;
  if (!options.save.enabled) return absl::OkStatus();
  const bool wanted =
      options.save.first_save == ManagerOptions::FirstSave::kAlways ||
      (options.save.first_save == ManagerOptions::FirstSave::kUnlessRestored &&
       !progress_.restored());
  // A step that was just restored is in the store already, even with kAlways.
  if (!wanted || lineage_.IsParent(global_step())) return absl::OkStatus();
  SaveRequest request;
  request.reason = "StartTraining saves the initial state";
  return Save(request).status();
}

// Ranks must agree, because an observer's error is known only on its own rank.
absl::Status CheckpointManager::Impl::FinishTraining() {
  if (!parts_->options.save.enabled) return absl::OkStatus();
  steps_.ExchangeNext();
  return Agree(parts_->ranks.get(), "finish the training", SaveLastStep(),
               parts_->options.ranks.deadline);
}

absl::Status CheckpointManager::Impl::SaveLastStep() {
  // An error of the previous save does not prevent saving the last step; it is
  // returned at the end.
  CKPTDB_RETURN_IF_ERROR(saves_.FinishSave(Poll::kAlone));
  absl::Status status = parts_->errors.TakeError();
  if (!progress_.trained()) return status;
  if (lineage_.IsParent(global_step())) {
    status.Update(MakeLastStepPermanent());
    return status;
  }
  // There was no time to save this step, so the newest one was made permanent
  // instead.
  if (preemption_.promoted_at() == global_step()) return status;
  SaveRequest request = last_step_;
  request.reason = "FinishTraining saves the last step";
  const absl::StatusOr<StepOutcome> outcome = steps_.DecideAndSave(
      Wanted{{request.kind, request.reason}, /*ends_training=*/true}, request);
  if (outcome.ok() && !outcome->save.has_value()) return status;  // promoted
  absl::Status cancelled;
  if (absl::IsCancelled(outcome.status())) cancelled = outcome.status();
  // If this is cancelled, the save continues.
  if (cancelled.ok()) cancelled = saves_.FinishSave(Poll::kAlone);
  if (!cancelled.ok()) {
    parts_->errors.NoteCallback(status);  // for the next call
    return cancelled;
  }
  status.Update(outcome.status());
  // Returns any failure, even one that ManagerOptions::save.tolerated_failures
  // would tolerate.
  if (outcome.ok()) status.Update(outcome->save->WaitCommitted().status());
  status.Update(parts_->errors.TakeError());
  return status;
}

// Ephemeral saves of the next run would remove the step. A step that was only
// restored stays as it is.
absl::Status CheckpointManager::Impl::MakeLastStepPermanent() {
  if (!parts_->is_owner() || lineage_.source().has_value()) {
    return absl::OkStatus();
  }
  bool ephemeral = false;
  parts_->store->VisitStep(global_step(), [&](const StepRecord& record) {
    ephemeral = record.ephemeral;
  });
  if (!ephemeral) return absl::OkStatus();
  return parts_->store->SetEphemeral(global_step(), false);
}

absl::StatusOr<RestoreReport> CheckpointManager::Impl::Restore(
    const RestoreRequest& request) {
  const auto begin = std::chrono::steady_clock::now();
  steps_.ExchangeNext();
  // An error of the previous save fails the restore on all ranks before any
  // model changes.
  CKPTDB_RETURN_IF_ERROR(Agree(parts_->ranks.get(), "restore",
                               FinishSaveAndTakeError(Poll::kAlone),
                               parts_->options.ranks.deadline));
  CKPTDB_ASSIGN_OR_RETURN(RestoreReport report, restorer_.Restore(request));
  NoteRestored(report);
  WarnOfNewerSteps(report);
  report.total_micros = internal::MicrosSince(begin);
  reporter_.ReportRestore(report);
  return report;
}

absl::StatusOr<RestoreReport> CheckpointManager::Impl::RestoreOrStart(
    const RestoreRequest& request) {
  if (read_only()) {
    return absl::FailedPreconditionError(absl::StrCat(
        "RestoreOrStart: the manager of store \"", parts_->options.path,
        "\" is read-only and starts no training; call Restore, or WaitForStep "
        "to follow the store"));
  }
  steps_.ExchangeNext();
  CKPTDB_ASSIGN_OR_RETURN(const std::optional<RestoreRequest> first,
                          restorer_.RequestAtStart(request));
  if (first.has_value()) return Restore(*first);
  RestoreReport report;
  report.store = parts_->options.path;
  report.fresh = true;
  return report;
}

absl::Status CheckpointManager::Impl::AbandonSteps() {
  CKPTDB_RETURN_IF_ERROR(CheckWritable("AbandonSteps"));
  if (!parts_->options.save.enabled) {
    return absl::FailedPreconditionError(
        absl::StrCat("AbandonSteps: store \"", parts_->options.path,
                     "\": ManagerOptions::save.enabled is false"));
  }
  steps_.ExchangeNext();
  CKPTDB_RETURN_IF_ERROR(Agree(parts_->ranks.get(), "abandon the steps",
                               FinishSaveAndTakeError(Poll::kAlone),
                               parts_->options.ranks.deadline));
  lineage_.AbandonAll(parts_->store.get());
  if (parts_->is_owner()) {
    parts_->warnings.WarnOfAbandonedSteps(lineage_.abandoned());
  }
  decisions_.OnNewLineage();
  preemption_.ForgetPromoted();
  return absl::OkStatus();
}

absl::StatusOr<RestoreReport> CheckpointManager::Impl::WaitForStep(
    absl::Duration timeout) {
  CKPTDB_RETURN_IF_ERROR(CheckReadOnly("WaitForStep"));
  CKPTDB_RETURN_IF_ERROR(AwaitStep(timeout).status());
  return ApplyStep();
}

absl::StatusOr<Version> CheckpointManager::Impl::AwaitStep(
    absl::Duration timeout) {
  CKPTDB_RETURN_IF_ERROR(CheckReadOnly("AwaitStep"));
  // Only the owner polls the store. The others wait for it for `timeout` and
  // one deadline more.
  const absl::Status status =
      parts_->is_owner()
          ? restorer_.AwaitNewer(timeout, [this] { return PollAwaiting(); })
          : absl::OkStatus();
  CKPTDB_RETURN_IF_ERROR(Agree(parts_->ranks.get(), "wait for a step", status,
                               timeout + parts_->options.ranks.deadline));
  return restorer_.OpenNewest();
}

absl::Status CheckpointManager::Impl::PollAwaiting() const {
  if (preempted()) {
    return absl::CancelledError("preempted while waiting for a step");
  }
  return internal::PollCancelled(parts_->options.observers.cancelled, "a step");
}

absl::StatusOr<RestoreReport> CheckpointManager::Impl::ApplyStep() {
  CKPTDB_RETURN_IF_ERROR(CheckReadOnly("ApplyStep"));
  const auto begin = std::chrono::steady_clock::now();
  CKPTDB_ASSIGN_OR_RETURN(RestoreReport report, restorer_.RestoreNewest());
  NoteRestored(report);
  report.total_micros = internal::MicrosSince(begin);
  reporter_.ReportRestore(report);
  return report;
}

absl::Status CheckpointManager::Impl::CheckReadOnly(
    absl::string_view what) const {
  if (read_only()) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat(what, ": the manager of store \"", parts_->options.path,
                   "\" is not read-only; only a manager that follows another "
                   "job's store can "
                   "wait for steps"));
}

void CheckpointManager::Impl::NoteRestored(const RestoreReport& report) {
  last_step_ = SaveRequest();
  preemption_.ForgetPromoted();
  // A step of another store implies nothing about this store's steps: the step
  // count and a save that was put off stay.
  if (report.store != parts_->options.path) {
    return progress_.OnRestored(std::nullopt);
  }
  progress_.OnRestored(report.version.step);
  decisions_.OnNewLineage();
  if (parts_->is_owner() && !read_only() && parts_->options.save.enabled) {
    parts_->warnings.WarnOfChangedModel(report);
    parts_->warnings.WarnOfExcludedTables(report.version.step,
                                          restorer_.excluded());
    parts_->warnings.WarnOfPins(*parts_->store, report.version.step,
                                lineage_.abandoned());
  }
}

void CheckpointManager::Impl::WarnOfNewerSteps(const RestoreReport& report) {
  if (!parts_->is_owner() || !parts_->options.save.enabled) return;
  if (report.store == parts_->options.path) return;
  const int64_t next = global_step() + 1;
  const absl::Status behind = decisions_.CheckAhead(next);
  if (behind.ok()) return;
  parts_->warnings.Warn(absl::StrCat("the model was restored from \"",
                                     report.store, "\": ", behind.message()));
}

absl::StatusOr<LoadSummary> CheckpointManager::Impl::Load(
    const std::vector<LoadRule>& rules, bool dry_run) {
  steps_.ExchangeNext();
  CKPTDB_RETURN_IF_ERROR(Agree(parts_->ranks.get(), "load",
                               FinishSaveAndTakeError(Poll::kAlone),
                               parts_->options.ranks.deadline));
  return restorer_.Load(rules, dry_run);
}

absl::Status CheckpointManager::Impl::Delete(int64_t step) {
  CKPTDB_RETURN_IF_ERROR(CheckWritable("Delete"));
  CKPTDB_RETURN_IF_ERROR(CheckOwner("Delete"));
  // The save in progress may be about to remove the same step.
  CKPTDB_RETURN_IF_ERROR(saves_.FinishSave(Poll::kAlways));
  CKPTDB_RETURN_IF_ERROR(parts_->store->Delete(step));
  history_.NoteKept(step, "removed: it was deleted by hand");
  if (parts_->options.observers.on_deleted) {
    // The step is already deleted, so an exception of the callback is the error
    // of the next call, not of this one.
    parts_->errors.NoteCallback(internal::CallGuarded(
        "ManagerOptions::observers.on_deleted",
        [&] { parts_->options.observers.on_deleted(step); }));
  }
  return absl::OkStatus();
}

absl::StatusOr<StepExplanation> CheckpointManager::Impl::Explain(
    int64_t step) const {
  CKPTDB_RETURN_IF_ERROR(CheckWritable("Explain"));
  CKPTDB_RETURN_IF_ERROR(CheckOwner("Explain"));
  if (retirement_.InPolicy()) {
    return absl::FailedPreconditionError(absl::StrCat(
        "Explain: step ", step, " of store \"", parts_->options.path,
        "\": a policy must not ask why a step is kept while it decides that; "
        "call Explain elsewhere"));
  }
  return internal::ExplainStep(*parts_->store, history_, retirement_, step);
}

absl::StatusOr<ShippingStatistics> CheckpointManager::Impl::Shipping() const {
  if (parts_->shipping != nullptr) return parts_->shipping->statistics();
  return absl::FailedPreconditionError(
      absl::StrCat("Shipping: rank ", parts_->ranks->rank(),
                   " ships no steps; only the owner, rank ", kOwnerRank,
                   ", ships, if ManagerOptions::ship.to is set"));
}

absl::StatusOr<StepRecord> CheckpointManager::Impl::BestStep() const {
  if (!read_only()) CKPTDB_RETURN_IF_ERROR(CheckOwner("BestStep"));
  return restorer_.BestStep();
}

absl::Status CheckpointManager::Impl::CheckOwner(absl::string_view what) const {
  if (parts_->is_owner()) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      what, ": must be called on rank ", kOwnerRank,
      ", which owns the store; this is rank ", parts_->ranks->rank()));
}

absl::Status CheckpointManager::Impl::CheckWritable(
    absl::string_view what) const {
  if (!read_only()) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat(what, ": the manager of store \"", parts_->options.path,
                   "\" is read-only"));
}

absl::Status CheckpointManager::Impl::FinishSaveAndTakeError(Poll poll) {
  CKPTDB_RETURN_IF_ERROR(saves_.FinishSave(poll));
  return parts_->errors.TakeError();
}

// Only the training thread takes the errors; other threads look at them, so
// that the training still receives them. While a save is in progress nothing is
// taken, because that would wait for the save.
absl::Status CheckpointManager::Impl::CheckForErrors() {
  CKPTDB_RETURN_IF_ERROR(
      gate_.home().Check("CheckpointManager::CheckForErrors"));
  if (gate_.calls().InCall()) return parts_->errors.PeekError();
  const internal::CallGate::Call call(&gate_.calls());
  if (!call.admitted()) return gate_.ClosedError("CheckForErrors");
  return gate_.EnterIfTraining(
      [this] {
        return IsSavingInProgress() ? absl::OkStatus()
                                    : FinishSaveAndTakeError(Poll::kAlways);
      },
      [this] { return parts_->errors.PeekError(); });
}

// A thread that does not train waits on the state that it shares with the save,
// and takes no error.
absl::Status CheckpointManager::Impl::WaitUntilFinished() {
  CKPTDB_RETURN_IF_ERROR(
      gate_.home().Check("CheckpointManager::WaitUntilFinished"));
  if (gate_.calls().InCall()) return gate_.ReentryError("WaitUntilFinished");
  const internal::CallGate::Call call(&gate_.calls());
  if (!call.admitted()) return gate_.ClosedError("WaitUntilFinished");
  return gate_.EnterIfTraining(
      [this] { return FinishSaveAndTakeError(Poll::kAlways); },
      [this] {
        const std::shared_ptr<PendingSave::State> save = saves_.current();
        if (save == nullptr || save->ended()) return parts_->errors.PeekError();
        return save->WaitEnded(absl::InfiniteDuration(), /*poll=*/true);
      });
}

// Waits for no other rank, only for this rank's save and for
// Coordinator::Leave. Closes the parts in the order of use: the save thread
// uses the store, and calls in progress use both.
absl::Status CheckpointManager::Impl::Close() {
  const absl::Status interrupted = saves_.FinishSave(Poll::kAlways);
  if (!interrupted.ok()) {
    saves_.Cancel();
    saves_.FinishSave(Poll::kNever).IgnoreError();  // cannot fail
  }
  saves_.Stop();
  absl::Status unshipped;
  if (interrupted.ok()) unshipped = AwaitShipping();
  // Refuses further calls, and waits for those that wait for the save.
  gate_.calls().Close();
  absl::Status closed;
  if (parts_->store != nullptr) closed = parts_->store->Close();
  if (absl::IsFailedPrecondition(closed)) {
    gate_.calls().Open();  // the store stays open for its readers
    return closed;
  }
  const absl::Status shipping = StopShipping();
  steps_.Leave();
  // Ranks that have not received the last save's outcome yet are sent it again.
  // The store is already closed, and may be opened meanwhile.
  parts_->ranks->Leave();
  evaluation_.Close();
  restorer_.Close();
  parts_->feed.reset();
  parts_->reader.reset();
  absl::Status status = parts_->errors.TakeError();
  status.Update(closed);
  status.Update(interrupted);
  status.Update(unshipped);
  status.Update(shipping);
  return status;
}

// A request to the object store may run user code, so it cannot be abandoned.
// If this wait is cancelled, the next Close or the destructor waits instead.
absl::Status CheckpointManager::Impl::StopShipping() {
  if (parts_->shipping == nullptr) return absl::OkStatus();
  const ManagerOptions& options = parts_->options;
  const absl::Time begin = absl::Now();
  bool warned = false;
  return parts_->shipping->Stop([&] {
    if (!warned && absl::Now() - begin >= options.observers.warn_waiting) {
      warned = true;
      parts_->warnings.WarnOfRequest();
    }
    return internal::PollCancelled(options.observers.cancelled,
                                   "a request to the object store to return");
  });
}

// Steps that are not shipped in time are no error: they are in the store, and
// the next manager or push ships them.
absl::Status CheckpointManager::Impl::AwaitShipping() {
  if (parts_->shipping == nullptr) return absl::OkStatus();
  const absl::StatusOr<StepRecord> latest = parts_->store->Latest();
  if (!latest.ok()) return absl::OkStatus();
  const ManagerOptions& options = parts_->options;
  const absl::Time begin = absl::Now();
  bool warned = false;
  absl::Status polled;
  const absl::Status shipped = parts_->shipping->WaitShipped(
      latest->version, begin + options.ship.close_wait, [&] {
        if (!warned && absl::Now() - begin >= options.observers.warn_waiting) {
          warned = true;
          parts_->warnings.WarnOfUnshipped(latest->version.step);
        }
        polled = internal::PollCancelled(options.observers.cancelled,
                                         "steps to be shipped");
        return polled;
      });
  if (!shipped.ok()) {
    // The error states the remedy; the next manager would be refused as well.
    const bool refused =
        absl::IsFailedPrecondition(parts_->shipping->statistics().last_error);
    parts_->warnings.Warn(absl::StrCat(
        "store \"", parts_->options.path, "\" was closed before step ",
        latest->version.step, " was shipped: ", shipped.ToString(),
        refused ? ""
                : "; the next manager, or \"ckptdb remote push\", ships it"));
  }
  return polled;
}

// A save of several ranks may wait up to ManagerOptions::ranks.deadline, half
// an hour by default, for a rank that has died. An exiting process waits a
// minute at most. If the save itself called exit(), it does not wait, because
// it would wait for itself.
void CheckpointManager::Impl::WaitAtExit() {
  const std::shared_ptr<PendingSave::State> save = saves_.current();
  if (save == nullptr || gate_.calls().InCall()) return;
  constexpr absl::Duration kPatience = absl::Minutes(1);
  const bool alone = parts_->world_size() == 1;
  save->WaitEnded(alone ? absl::InfiniteDuration() : kPatience, /*poll=*/false)
      .IgnoreError();
}

}  // namespace ckptdb
