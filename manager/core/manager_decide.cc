// What a manager does at a step: the owner decides, begins the save, and tells
// all ranks.
#include <utility>

#include "absl/strings/str_cat.h"
#include "ckptdb/db/base/call_guard.h"
#include "ckptdb/manager/core/manager_impl.h"
#include "ckptdb/manager/policy/save_schedule.h"
#include "ckptdb/manager/policy/step_info.h"
#include "ckptdb/manager/ranks/status_bytes.h"
#include "ckptdb/manager/state/model_sharding.h"
#include "ckptdb/schema/annotate.h"
#include "ckptdb/schema/status.h"

namespace ckptdb {
namespace {

constexpr char kSavingOff[] = "ManagerOptions::saving is off";

}  // namespace

using internal::Announcement;

// Takes note of a step that was trained.
absl::Status CheckpointManager::Impl::Count(int64_t step) {
  if (step > global_step_ || (step == 0 && before_first_step_)) {
    global_step_ = step;
    before_first_step_ = false;
    trained_ = true;
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "step ", step, " is not after step ", global_step(), ", the last one"));
}

absl::StatusOr<StepOutcome> CheckpointManager::Impl::StepTo(
    int64_t step, const Metrics& metrics, const UserMetadata& user_metadata) {
  CKPTDB_RETURN_IF_ERROR(Count(step));
  SaveRequest request;
  request.metrics = metrics;
  request.user_metadata = user_metadata;
  CKPTDB_ASSIGN_OR_RETURN(StepOutcome outcome, Share(std::nullopt, request));
  step_preempted_ = outcome.preempted;
  return outcome;
}

// All ranks take note of the end of the save before, as with a step.
absl::StatusOr<SaveDecision> CheckpointManager::Impl::ShouldSave(
    int64_t step, const Metrics& metrics) {
  if (step < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("ShouldSave: step ", step, " is below 0"));
  }
  if (read_only()) return ReadOnlyDecision();
  Announcement own;
  own.error = GatherNotices(/*of_a_step=*/true, &own.preempted);
  if (own.error.ok() && is_owner()) {
    const bool busy = IsSavingInProgress();
    own.settle = !busy;
    if (own.settle) Settle();
    absl::StatusOr<SaveDecision> decision = internal::CallGuarded(
        "deciding on a save",
        [&] { return Foresee(step, busy, own.preempted, metrics); });
    own.error = decision.status();
    if (decision.ok()) own.decision = *std::move(decision);
  }
  if (world_size() > 1) {
    CKPTDB_ASSIGN_OR_RETURN(
        const std::string bytes,
        ranks_->Broadcast(absl::StrCat("whether step ", step, " is saved"),
                          Encode(own),
                          AfterGather(*ranks_, options_.deadline)));
    CKPTDB_RETURN_IF_ERROR(Decode(bytes, &own));
    if (own.settle) Settle();
  }
  CKPTDB_RETURN_IF_ERROR(own.error);
  return own.decision;
}

// What StepTo would come to, on the owner.
absl::StatusOr<SaveDecision> CheckpointManager::Impl::Foresee(
    int64_t step, bool busy, bool preempted, const Metrics& metrics) {
  SaveDecision decision = DecideStep(step, busy, preempted, metrics);
  if (decision.kind == SaveKind::kNone) return decision;
  if (busy) return WhenBusy(step, decision);
  return PromotionInstead(preempted, decision).value_or(decision);
}

absl::StatusOr<PendingSave> CheckpointManager::Impl::Save(
    const SaveRequest& request) {
  CKPTDB_ASSIGN_OR_RETURN(
      const StepOutcome outcome,
      Share(SaveDecision{request.kind, request.why}, request));
  if (outcome.save.has_value()) return *outcome.save;
  return absl::FailedPreconditionError(absl::StrCat(
      "step ", outcome.step, " is not saved: ", outcome.decision.why));
}

absl::Status CheckpointManager::Impl::CheckOwner() const {
  if (is_owner()) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("rank ", ranks_->rank(),
                   " does not decide; ask the owner, rank ", kOwnerRank));
}

absl::Status CheckpointManager::Impl::Delete(int64_t step) {
  CKPTDB_RETURN_IF_ERROR(CheckOwner());
  Settle();  // it may be about to retire the same step
  CKPTDB_RETURN_IF_ERROR(store_->Delete(step));
  history_.NoteKept(step, "removed: it was deleted by hand");
  if (options_.on_deleted) {
    NoteCallback(internal::CallGuarded("ManagerOptions::on_deleted",
                                       [&] { options_.on_deleted(step); }));
  }
  return absl::OkStatus();
}

absl::Status CheckpointManager::Impl::SavingOffError() const {
  return absl::FailedPreconditionError(
      absl::StrCat("Save: step ", global_step(), " of store \"", options_.path,
                   "\" is not saved: ", kSavingOff));
}

absl::Status CheckpointManager::Impl::StartTraining() {
  if (!saving()) return absl::OkStatus();
  const bool wanted =
      options_.first_save == FirstSave::kAlways ||
      (options_.first_save == FirstSave::kUnlessRestored && !restored_);
  if (!wanted || IsSaved(global_step_)) return absl::OkStatus();
  SaveRequest request;
  request.why = "the training begins with it";
  return Save(request).status();
}

absl::Status CheckpointManager::Impl::FinishTraining() {
  if (!saving()) return absl::OkStatus();
  absl::Status status = SettleAndTell();
  const bool trained = trained_ || global_step_ > 0;
  if (!trained || IsSaved(global_step_)) return status;
  if (promoted_at_ == global_step()) return status;  // no time for a save
  SaveRequest request;
  request.why = "the training ends with it";
  const absl::StatusOr<PendingSave> save = Save(request);
  status.Update(save.status());
  // Here no failure is tolerated.
  if (save.ok()) status.Update(save->WaitCommitted().status());
  status.Update(SettleAndTell());
  return status;
}

// Whether any rank is preempted, and what the callbacks of any have thrown; the
// owner learns of it. Only a step tells its caller of a preemption, so nothing
// else takes note of one.
absl::Status CheckpointManager::Impl::GatherNotices(bool of_a_step,
                                                    bool* preempted) {
  *preempted = of_a_step && (asked_to_end_ || preemption_open_);
  if (world_size() == 1) return TakeCallbackError();
  const absl::Status own = TakeCallbackError();
  const auto notices = ranks_->Gather(
      absl::StrCat("notices at step ", global_step()),
      absl::StrCat(*preempted ? "1" : "0", internal::EncodeStatus(own)),
      options_.deadline);
  if (!notices.ok()) {
    NoteCallback(own);  // nobody was told
    return notices.status();
  }
  absl::Status thrown;
  for (size_t rank = 0; rank < notices->size(); ++rank) {
    const absl::string_view notice = (*notices)[rank];
    if (!notice.empty() && notice[0] == '1') *preempted = true;
    if (notice.size() < 2) continue;
    thrown.Update(internal::Annotate(internal::DecodeStatus(notice.substr(1)),
                                     absl::StrCat("rank ", rank)));
  }
  return thrown;
}

// Called when all ranks have agreed on whether the step is preempted.
void CheckpointManager::Impl::NotePreemption(const Announcement& announced) {
  if (announced.preempted) {
    preemption_open_ = true;
    step_preempted_ = true;  // first, so that preempted() stays true
    asked_to_end_ = false;
  }
  if (announced.promoted) {
    preemption_open_ = false;
    promoted_at_ = announced.step;
  }
}

// The owner's announcement, to all ranks and through all of them.
absl::StatusOr<StepOutcome> CheckpointManager::Impl::Share(
    std::optional<SaveDecision> wanted, const SaveRequest& request) {
  called_ = Clock::now();
  waited_micros_.reset();
  WarnOfMetrics(request.metrics);
  Announcement own;
  own.error = GatherNotices(!wanted.has_value(), &own.preempted);
  if (own.error.ok() && is_owner()) {
    Announce(std::move(wanted), request, &own);
  }
  // Nobody else is to be told.
  if (world_size() == 1) return Follow(std::move(own), request);
  const absl::StatusOr<std::string> bytes =
      ranks_->Broadcast(absl::StrCat("step ", global_step()), Encode(own),
                        AfterGather(*ranks_, options_.deadline));
  if (!bytes.ok()) {
    if (own.decision.kind != SaveKind::kNone) {
      // What was begun for nothing is swept, whether or not this succeeds.
      store_->Abandon(own.version).IgnoreError();
    }
    return bytes.status();
  }
  Announcement announced;
  CKPTDB_RETURN_IF_ERROR(Decode(*bytes, &announced));
  return Follow(std::move(announced), request);
}

void CheckpointManager::Impl::WarnOfMetrics(const Metrics& metrics) {
  if (is_owner() || !saving() || metrics.empty()) return;
  if (std::exchange(warned_of_metrics_, true)) return;
  Warn(absl::StrCat("metrics of rank ", ranks_->rank(),
                    " are not saved, those of rank ", kOwnerRank,
                    " are: bring them together before Step, and give them "
                    "there"));
}

// On the owner. Policies of the trainer's are called here.
void CheckpointManager::Impl::Announce(std::optional<SaveDecision> wanted,
                                       const SaveRequest& request,
                                       Announcement* announced) {
  announced->step = global_step_;
  announced->error.Update(internal::CallGuarded("deciding on a save", [&] {
    return DecideAndBegin(std::move(wanted), request, announced);
  }));
  NoteDecision(*announced);
  if (announced->error.ok()) return;
  announced->decision.kind = SaveKind::kNone;
  if (announced->version.attempt != 0) {
    store_->Abandon(announced->version).IgnoreError();
  }
}

absl::Status CheckpointManager::Impl::DecideAndBegin(
    std::optional<SaveDecision> wanted, const SaveRequest& request,
    Announcement* announced) {
  bool busy = IsSavingInProgress();
  // A decision knows of the save that has ended.
  if (!busy) Settle();
  const Clock::time_point begin = Clock::now();
  announced->decision = wanted.has_value()
                            ? *wanted
                            : DecideStep(global_step_, busy,
                                         announced->preempted, request.metrics);
  planning_micros_ = MicrosSince(begin);
  if (busy && announced->decision.kind != SaveKind::kNone) {
    CKPTDB_ASSIGN_OR_RETURN(SaveDecision now,
                            WhenBusy(global_step(), announced->decision));
    busy = now.kind == SaveKind::kNone;
    if (busy && options_.busy == BusyPolicy::kCoalesce) {
      owed_ = {global_step(), {announced->decision.kind, now.why}};
    }
    announced->decision = std::move(now);
  }
  // What a save that is not settled has met is told when it is, on all ranks.
  announced->settle = !busy;
  if (announced->settle) {
    Settle();
    CKPTDB_RETURN_IF_ERROR(TakeSaveError());
  }
  CKPTDB_RETURN_IF_ERROR(PromoteWhenPreempted(announced));
  if (announced->decision.kind == SaveKind::kNone) return absl::OkStatus();
  return Begin(request, announced);
}

void CheckpointManager::Impl::NoteDecision(const Announcement& announced) {
  const bool saved = announced.decision.kind != SaveKind::kNone;
  if (announced.error.ok()) {
    history_.NoteSaved(announced.step, absl::StrCat(saved ? "" : "not saved: ",
                                                    announced.decision.why));
  } else if (!history_.Find(announced.step).has_value()) {
    // Else it was saved before, or is known not to be.
    history_.NoteSaved(announced.step,
                       absl::StrCat("not saved: ", announced.error.ToString()));
  }
}

SaveDecision CheckpointManager::Impl::DecideStep(int64_t step, bool busy,
                                                 bool preempted,
                                                 const Metrics& metrics) {
  if (!saving()) return {SaveKind::kNone, kSavingOff};
  SaveContext context;
  context.step = step;
  context.now_micros = NowMicros();
  context.saving = busy;
  context.preempted = preempted;
  context.metrics = metrics;
  context.history = [this] { return CommittedSteps(); };
  if (busy) {
    context.last = StepInfo{round_->announced.step, round_->begun_at_micros,
                            round_->request.kind == SaveKind::kEphemeral,
                            round_->request.metrics};
  } else {
    context.last = Newest();
  }
  SaveDecision decision = internal::Decide(options_.schedule, context);
  if (decision.kind == SaveKind::kNone && !busy && owed_.has_value() &&
      step >= owed_->from_step) {
    decision = owed_->decision;
  }
  return decision;
}

std::optional<StepInfo> CheckpointManager::Impl::Newest() const {
  const std::optional<int64_t> step =
      parent_ ? std::optional(parent_->step) : newest_at_open_;
  std::optional<StepInfo> newest;
  if (!step.has_value()) return newest;
  const bool there = store_->VisitStep(*step, [&](const StepRecord& record) {
    newest = internal::StepInfoOf(record);
  });
  if (there) return newest;
  const absl::StatusOr<StepRecord> latest = store_->Latest();
  if (latest.ok()) newest = internal::StepInfoOf(*latest);
  return newest;
}

std::vector<StepInfo> CheckpointManager::Impl::CommittedSteps() const {
  std::vector<StepInfo> steps;
  store_->VisitSteps([&](const StepRecord& record) {
    if (record.quarantined || abandoned_steps_.contains(record.version.step)) {
      return;
    }
    steps.push_back(internal::StepInfoOf(record));
  });
  return steps;
}

// A step that is there is better than one that will not be in time.
std::optional<SaveDecision> CheckpointManager::Impl::PromotionInstead(
    bool preempted, const SaveDecision& decision) const {
  if (!preempted || decision.kind == SaveKind::kNone || !parent_ ||
      absl::Microseconds(last_save_micros_) <= options_.preemption_grace) {
    return std::nullopt;
  }
  const absl::StatusOr<StepRecord> newest = store_->FindStep(parent_->step);
  if (!newest.ok() || !newest->ephemeral) return std::nullopt;
  return SaveDecision{
      SaveKind::kNone,
      absl::StrCat("preempted; step ", parent_->step,
                   " is permanent now instead, as the save before took ",
                   absl::FormatDuration(absl::Microseconds(last_save_micros_)),
                   ", and ", absl::FormatDuration(options_.preemption_grace),
                   " are left")};
}

absl::Status CheckpointManager::Impl::PromoteWhenPreempted(
    Announcement* announced) {
  std::optional<SaveDecision> instead =
      PromotionInstead(announced->preempted, announced->decision);
  if (!instead.has_value()) return absl::OkStatus();
  CKPTDB_RETURN_IF_ERROR(store_->SetEphemeral(parent_->step, false));
  announced->promoted = true;
  announced->decision = *std::move(instead);
  return absl::OkStatus();
}

// What becomes of a decision to save while a save is in progress.
absl::StatusOr<SaveDecision> CheckpointManager::Impl::WhenBusy(
    int64_t step, const SaveDecision& decision) const {
  const std::string why =
      absl::StrCat("step ", round_->announced.step, " is being saved");
  switch (options_.busy) {
    case BusyPolicy::kWait:
      return decision;
    case BusyPolicy::kSkip:
      return SaveDecision{SaveKind::kNone,
                          absl::StrCat(decision.why, ", but ", why)};
    case BusyPolicy::kCoalesce:
      return SaveDecision{SaveKind::kNone,
                          absl::StrCat("step ", step, " was not saved, as ",
                                       why, ", although ", decision.why)};
    case BusyPolicy::kFail:
      return absl::FailedPreconditionError(
          absl::StrCat("step ", step, " cannot be saved: ", why));
  }
  return absl::InternalError("no such busy policy");
}

absl::Status CheckpointManager::Impl::Begin(const SaveRequest& request,
                                            Announcement* announced) {
  begun_at_micros_ = NowMicros();
  const SaveSpec spec = NextSpec(request);
  CKPTDB_ASSIGN_OR_RETURN(const SaveHandle save, store_->Begin(spec));
  owed_.reset();
  announced->version = save.version;
  for (const Ticket& ticket : save.tickets) {
    CKPTDB_ASSIGN_OR_RETURN(announced->tickets.emplace_back(),
                            EncodeTicket(ticket));
  }
  announced->whole = !spec.parent.has_value();
  announced->base_reason = BaseReason();
  return absl::OkStatus();
}

// A quarantined step is there, but was not gone on from: it is trained again.
// So is one of those given up.
SaveSpec CheckpointManager::Impl::NextSpec(const SaveRequest& request) const {
  SaveSpec spec;
  spec.step = global_step_;
  spec.world_size = world_size();
  spec.begun_at_micros = begun_at_micros_;
  spec.slice_bounds = internal::SliceBoundsOf(shardings_);
  // One that was deleted by hand is no parent: the save is whole.
  const auto none = [](const StepRecord&) {};
  if (parent_ && store_->VisitStep(parent_->step, none)) spec.parent = parent_;
  const absl::StatusOr<StepRecord> existing = store_->FindStep(spec.step);
  spec.overwrite = request.overwrite ||
                   (existing.ok() && (existing->quarantined ||
                                      abandoned_steps_.contains(spec.step)));
  if (!abandoned_steps_.empty()) spec.abandoned = options_.abandoned;
  return spec;
}

std::string CheckpointManager::Impl::BaseReason() const {
  if (!base_due_.empty()) return base_due_;
  const auto every = static_cast<uint64_t>(options_.base_every);
  if (!parent_ || every == 0 || deltas_ + 1 < every) return "";
  return absl::StrCat("every ", every, " saves one is whole");
}

}  // namespace ckptdb
