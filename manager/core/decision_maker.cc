// SPDX-License-Identifier: Apache-2.0
#include "manager/core/decision_maker.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "absl/strings/str_cat.h"
#include "manager/policy/now_micros.h"
#include "manager/policy/outlook.h"
#include "manager/policy/save_schedule.h"
#include "manager/policy/step_info.h"
#include "schema/status.h"

namespace ckptdb::internal {
namespace {

// Returns whether a save of `kind` can replace one of `other`, but not the
// reverse.
bool IsStronger(SavePolicy::Kind kind, SavePolicy::Kind other) {
  if (kind == other || kind == SavePolicy::Kind::kNone) return false;
  return kind == SavePolicy::Kind::kPermanent ||
         other == SavePolicy::Kind::kNone;
}

}  // namespace

absl::Status DecisionMaker::CheckAhead(int64_t step) const {
  if (lineage_->parent().has_value()) return absl::OkStatus();
  const std::vector<StepInfo> committed = CommittedSteps();
  if (committed.empty()) return CheckAheadOfQuarantined(step);
  const int64_t newest = committed.back().step;
  if (step > newest) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      "step ", step, " cannot be saved: store \"", options_.path,
      "\" already has step ", newest,
      ", and the model was not restored from it; call RestoreOrStart to "
      "continue from step ",
      newest,
      ", open another folder, or call AbandonSteps to discard this store's "
      "steps"));
}

absl::Status DecisionMaker::CheckAheadOfQuarantined(int64_t step) const {
  if (lineage_->has_begun()) return absl::OkStatus();
  int64_t newest = -1;
  store_->VisitSteps([&](const StepRecord& record) {
    if (record.quarantined) newest = std::max(newest, record.version.step);
  });
  if (step > newest) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      "step ", step, " cannot be saved: all steps of store \"", options_.path,
      "\" are quarantined, the newest is step ", newest,
      "; run \"ckptdb quarantine --undo STEP\" for an undamaged step, restore "
      "a "
      "copy of the store, open another folder, or call "
      "AbandonSteps to discard this store's steps"));
}

// Without the time, which only decisions need.
SavePolicy::Context DecisionMaker::ContextOf(const Question& question) const {
  const bool busy = question.saving.has_value();
  SavePolicy::Context context;
  context.step = question.step;
  context.saving = busy;
  context.preempted = question.preempted;
  context.metrics = question.metrics;
  // A function, because most policies do not need the list of all steps.
  context.history = [this] { return CommittedSteps(); };
  // A save in progress counts as the newest step; otherwise an interval policy
  // would begin a second save before the first ends.
  context.last = busy ? question.saving : Newest();
  return context;
}

SavePolicy::Decision DecisionMaker::Decide(const Question& question) const {
  if (!options_.save.enabled) {
    return {SavePolicy::Kind::kNone, "ManagerOptions::save.enabled is false"};
  }
  SavePolicy::Context context = ContextOf(question);
  context.now_micros = NowMicros(options_);
  SavePolicy::Decision decision = internal::Decide(
      options_.schedule, context, NewestPermanent(context.last));
  // The first step after the save in progress replaces a step that was put off,
  // unless the schedule saves it with at least that kind. With kWait, a save in
  // progress does not put off others.
  const bool free = !context.saving ||
                    options_.save.busy == ManagerOptions::BusyPolicy::kWait;
  if (free && put_off_.has_value() && question.step >= put_off_->from_step &&
      IsStronger(put_off_->decision.kind, decision.kind)) {
    decision = put_off_->decision;
  }
  return decision;
}

// A step that was put off waits for the save in progress, which may end at any
// time.
int64_t DecisionMaker::NextDue(const Question& question) const {
  if (!options_.save.enabled) return kNoStep;
  const SavePolicy::Context context = ContextOf(question);
  const int64_t due = internal::NextDue(options_.schedule, context,
                                        NewestPermanent(context.last));
  if (!put_off_.has_value()) return due;
  return std::min(due,
                  std::max(put_off_->from_step, StepsAfter(question.step, 1)));
}

// Puts nothing off and promotes no step, so asking twice returns the same
// answer.
absl::StatusOr<SavePolicy::Decision> DecisionMaker::WouldSave(
    const Question& question) const {
  SavePolicy::Decision decision = Decide(question);
  decision = DecisionIfTaken(question.step, decision).value_or(decision);
  if (!question.saving.has_value()) {
    return DecisionIfPromoted(question.preempted).value_or(decision);
  }
  if (decision.kind == SavePolicy::Kind::kNone) return decision;
  return ApplyBusyPolicy(question, decision);
}

// Keeps the kind of save, with the reason for the delay, so that the step saved
// instead explains itself.
absl::StatusOr<SavePolicy::Decision> DecisionMaker::DecideWhenBusy(
    const Question& question, const SavePolicy::Decision& decision) {
  CKPTDB_ASSIGN_OR_RETURN(SavePolicy::Decision now,
                          ApplyBusyPolicy(question, decision));
  if (now.kind == SavePolicy::Kind::kNone &&
      options_.save.busy == ManagerOptions::BusyPolicy::kCoalesce) {
    PutOff(question.step, {decision.kind, now.reason});
  }
  return now;
}

// If the decision stands, the caller waits for the save in progress before it
// begins this one.
absl::StatusOr<SavePolicy::Decision> DecisionMaker::ApplyBusyPolicy(
    const Question& question, const SavePolicy::Decision& decision) const {
  const std::string why =
      absl::StrCat("step ", question.saving->step, " is being saved");
  const ManagerOptions::BusyPolicy busy = options_.save.busy;
  if (question.requested && busy != ManagerOptions::BusyPolicy::kFail) {
    return decision;
  }
  switch (busy) {
    case ManagerOptions::BusyPolicy::kWait:
      return decision;
    case ManagerOptions::BusyPolicy::kSkip:
      return SavePolicy::Decision{SavePolicy::Kind::kNone,
                                  absl::StrCat(decision.reason, ", but ", why)};
    case ManagerOptions::BusyPolicy::kCoalesce:
      return SavePolicy::Decision{
          SavePolicy::Kind::kNone,
          absl::StrCat("step ", question.step, " was not saved, because ", why,
                       ", although ", decision.reason)};
    case ManagerOptions::BusyPolicy::kFail:
      return absl::FailedPreconditionError(
          absl::StrCat("step ", question.step, " cannot be saved: ", why,
                       "; call WaitUntilFinished first, or set "
                       "ManagerOptions::save.busy to kWait"));
  }
  return absl::InternalError(absl::StrCat("invalid ManagerOptions::BusyPolicy ",
                                          static_cast<int>(busy)));
}

// An existing step with this number must not be overwritten if it is pinned in
// an abandoned branch, or was unquarantined after the restore.
std::optional<SavePolicy::Decision> DecisionMaker::DecisionIfTaken(
    int64_t step, const SavePolicy::Decision& decision) const {
  if (decision.kind == SavePolicy::Kind::kNone) return std::nullopt;
  const bool abandoned = lineage_->abandoned().contains(step);
  bool taken = false;
  store_->VisitStep(step, [&](const StepRecord& record) {
    taken = abandoned ? record.pinned : !record.quarantined;
  });
  if (!taken) return std::nullopt;
  const std::string why =
      abandoned
          ? "of an abandoned branch is pinned"
          : "exists and belongs to another branch, such as a step that was "
            "unquarantined";
  const std::string remedy =
      abandoned ? absl::StrCat("run \"ckptdb unpin ", step, "\"")
                : std::string("delete it");
  return SavePolicy::Decision{
      SavePolicy::Kind::kNone,
      absl::StrCat("step ", step, " ", why,
                   " and is not overwritten; the next step is saved instead (",
                   decision.reason, "); to allow overwriting it, ", remedy)};
}

bool DecisionMaker::SkipTaken(int64_t step, SavePolicy::Decision* decision) {
  std::optional<SavePolicy::Decision> instead =
      DecisionIfTaken(step, *decision);
  if (!instead.has_value()) return false;
  PutOff(step + 1, {decision->kind, instead->reason});
  *decision = *std::move(instead);
  return true;
}

void DecisionMaker::PutOff(int64_t from, SavePolicy::Decision decision) {
  if (put_off_.has_value()) {
    const SavePolicy::Kind kind = put_off_->decision.kind;
    if (IsStronger(kind, decision.kind)) return;
    if (kind == decision.kind && put_off_->from_step <= from) return;
  }
  put_off_ = {from, std::move(decision)};
}

void DecisionMaker::OnSaveBegun(SavePolicy::Kind kind) {
  if (put_off_.has_value() && !IsStronger(put_off_->decision.kind, kind)) {
    put_off_.reset();
  }
}

std::optional<StepInfo> DecisionMaker::Newest() const {
  const std::optional<int64_t> step = lineage_->newest_step();
  std::optional<StepInfo> newest;
  if (!step.has_value()) return newest;
  const bool found = store_->VisitStep(
      *step, [&](const StepRecord& record) { newest = StepInfoOf(record); });
  if (found) return newest;
  // The step was deleted by hand: use the one before it.
  std::vector<StepInfo> committed = CommittedSteps();
  if (!committed.empty()) newest = std::move(committed.back());
  return newest;
}

// Remembers the last permanent step of this run even if retention has removed
// it, so that the next one is not saved early. Before this run has saved one,
// finds it among the store's steps.
std::optional<StepInfo> DecisionMaker::NewestPermanent(
    const std::optional<StepInfo>& newest) const {
  if (newest.has_value() && !newest->ephemeral) return newest;
  if (!options_.schedule.permanent.has_value()) return std::nullopt;
  if (last_permanent_.has_value()) {
    bool quarantined = false;
    store_->VisitStep(last_permanent_->step, [&](const StepRecord& record) {
      quarantined = record.quarantined;
    });
    if (!quarantined) return last_permanent_;
  }
  std::optional<int64_t> found;
  store_->VisitSteps([&](const StepRecord& record) {
    if (Counts(record) && !record.ephemeral) found = record.version.step;
  });
  std::optional<StepInfo> permanent;
  if (!found.has_value()) return permanent;
  store_->VisitStep(*found, [&](const StepRecord& record) {
    permanent = StepInfoOf(record);
  });
  return permanent;
}

void DecisionMaker::OnCommitted(StepInfo step) {
  if (!step.ephemeral) last_permanent_ = std::move(step);
}

void DecisionMaker::OnNewLineage() {
  put_off_.reset();
  last_permanent_.reset();
}

// Policies must not count damaged steps, nor steps of a branch that the
// training has left.
bool DecisionMaker::Counts(const StepRecord& record) const {
  return !record.quarantined &&
         !lineage_->abandoned().contains(record.version.step);
}

std::vector<StepInfo> DecisionMaker::CommittedSteps() const {
  std::vector<StepInfo> steps;
  store_->VisitSteps([&](const StepRecord& record) {
    if (Counts(record)) steps.push_back(StepInfoOf(record));
  });
  return steps;
}

// Returns the decision to make the newest step permanent if another save, which
// FinishTraining makes if the schedule does not, would end too late. Returns
// nothing if the newest step is permanent already: then the save is tried.
std::optional<SavePolicy::Decision> DecisionMaker::DecisionIfPromoted(
    bool preempted) const {
  const absl::Duration last_save = absl::Microseconds(last_save_micros_);
  const std::optional<Version>& parent = lineage_->parent();
  if (!preempted || !parent.has_value() ||
      last_save <= options_.save.preemption_grace) {
    return std::nullopt;
  }
  const absl::StatusOr<StepRecord> newest = store_->FindStep(parent->step);
  if (!newest.ok() || !newest->ephemeral) return std::nullopt;
  return SavePolicy::Decision{
      SavePolicy::Kind::kNone,
      absl::StrCat("preempted: step ", parent->step,
                   " becomes permanent instead, because the last save took ",
                   absl::FormatDuration(last_save),
                   " and ManagerOptions::save.preemption_grace is ",
                   absl::FormatDuration(options_.save.preemption_grace))};
}

// Changes the store first: if that fails, the step ends with its error on all
// ranks, and no rank believes that the newest step is permanent.
absl::StatusOr<bool> DecisionMaker::PromoteInstead(
    bool preempted, SavePolicy::Decision* decision) {
  std::optional<SavePolicy::Decision> instead = DecisionIfPromoted(preempted);
  if (!instead.has_value()) return false;
  CKPTDB_RETURN_IF_ERROR(store_->SetEphemeral(lineage_->parent()->step, false));
  *decision = *std::move(instead);
  return true;
}

}  // namespace ckptdb::internal
