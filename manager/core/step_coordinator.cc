#include "ckptdb/manager/core/step_coordinator.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "ckptdb/db/base/call_guard.h"
#include "ckptdb/manager/policy/now_micros.h"
#include "ckptdb/manager/ranks/status_bytes.h"
#include "ckptdb/manager/state/micros_since.h"
#include "ckptdb/manager/state/model_sharding.h"
#include "ckptdb/schema/bytes/annotate.h"
#include "ckptdb/schema/status.h"

namespace ckptdb::internal {
namespace {

// Returns whether the store has turned a save down: it would do so again,
// whatever the machine does, until the caller acts. Only a failure is counted,
// and may be tolerated.
bool IsRefusal(const absl::Status& status) {
  return absl::IsAlreadyExists(status) || absl::IsInvalidArgument(status) ||
         absl::IsFailedPrecondition(status);
}

}  // namespace

absl::StatusOr<CheckpointManager::StepOutcome>
StepCoordinator::BroadcastDecision(
    const std::optional<SavePolicy::Decision>& wanted,
    const SaveRequest& request) {
  ManagerParts& manager = *parts_.manager;
  Coordinator* const ranks = manager.ranks.get();
  times_ = Times();
  times_.called_at = Clock::now();
  if (!manager.is_owner() && manager.options.saving &&
      !request.metrics.empty()) {
    manager.warnings.WarnOfMetrics(ranks->rank());
  }
  Announcement own;
  own.error = GatherNotices(!wanted.has_value(), &own.preempted);
  if (own.error.ok() && manager.is_owner()) Announce(wanted, request, &own);
  // There is no other rank to broadcast to.
  if (manager.world_size() == 1) {
    return ApplyDecision(std::move(own), request);
  }
  const absl::StatusOr<std::string> bytes = TellAfterNotices(
      absl::StrCat("step ", parts_.progress->global_step()), Encode(own));
  if (!bytes.ok()) {
    GiveUp(&own);
    return bytes.status();
  }
  Announcement announced;
  CKPTDB_RETURN_IF_ERROR(Decode(*bytes, &announced));
  return ApplyDecision(std::move(announced), request);
}

absl::StatusOr<SavePolicy::Decision> StepCoordinator::Foresee(
    int64_t step, const Metrics& metrics) {
  ManagerParts& manager = *parts_.manager;
  Announcement own;
  own.error = GatherNotices(/*of_a_step=*/true, &own.preempted);
  if (own.error.ok() && manager.is_owner()) {
    own = AnnounceForeseen(step, metrics, std::move(own));
  }
  if (manager.world_size() > 1) {
    CKPTDB_ASSIGN_OR_RETURN(
        const std::string bytes,
        TellAfterNotices(absl::StrCat("whether step ", step, " is saved"),
                         Encode(own)));
    CKPTDB_RETURN_IF_ERROR(Decode(bytes, &own));
    if (own.finish_save) FinishSave();
  }
  CKPTDB_RETURN_IF_ERROR(own.error);
  return own.decision;
}

Announcement StepCoordinator::AnnounceForeseen(int64_t step,
                                               const Metrics& metrics,
                                               Announcement announced) {
  const bool busy = parts_.saves->in_progress();
  // The answer has to be that of StepTo, which would take note of a save that
  // has ended.
  announced.finish_save = !busy;
  if (!busy) FinishSave();
  absl::StatusOr<SavePolicy::Decision> decision = CallGuarded(
      "deciding on a save", [&]() -> absl::StatusOr<SavePolicy::Decision> {
        if (!busy && parts_.manager->options.saving) {
          CKPTDB_RETURN_IF_ERROR(parts_.decisions->CheckAhead(step));
        }
        return parts_.decisions->Foresee(
            {step, announced.preempted, metrics, parts_.saves->unfinished()});
      });
  announced.error = decision.status();
  if (decision.ok()) announced.decision = *std::move(decision);
  return announced;
}

// Gathers whether any rank is preempted, and what the callbacks of any have
// thrown; the owner learns of it. Only a step tells its caller of a preemption,
// so nothing else takes note of one.
absl::Status StepCoordinator::GatherNotices(bool of_a_step, bool* preempted) {
  ManagerParts& manager = *parts_.manager;
  *preempted = of_a_step && parts_.preemption->pending();
  noticed_ = manager.errors.TakeCallbackError();
  absl::Status own = noticed_;
  // A model that is partly written on one rank alone is saved by none.
  if (manager.options.saving) own.Update(parts_.lineage->CheckWritten());
  if (manager.world_size() == 1) return own;
  const auto notices = manager.ranks->Gather(
      absl::StrCat("notices at step ", parts_.progress->global_step()),
      absl::StrCat(*preempted ? "1" : "0", EncodeStatus(own)),
      manager.options.deadline);
  if (!notices.ok()) {
    manager.errors.NoteCallback(noticed_);  // nobody was told
    return notices.status();
  }
  absl::Status thrown;
  for (size_t rank = 0; rank < notices->size(); ++rank) {
    const absl::string_view notice = (*notices)[rank];
    if (!notice.empty() && notice[0] == '1') *preempted = true;
    if (notice.size() < 2) continue;
    // The lowest rank that has an error names it. All ranks get the same.
    thrown.Update(
        Annotate(DecodeStatus(notice.substr(1)), absl::StrCat("rank ", rank)));
  }
  return thrown;
}

// Returns what the owner tells. Where that fails, nobody was told of an error
// of a callback on this rank, so it stays for the next call.
absl::StatusOr<std::string> StepCoordinator::TellAfterNotices(
    const std::string& tag, std::string announced) {
  ManagerParts& manager = *parts_.manager;
  absl::StatusOr<std::string> told = manager.ranks->Tell(
      tag, std::move(announced),
      AfterGather(*manager.ranks, manager.options.deadline));
  if (!told.ok()) manager.errors.NoteCallback(noticed_);
  return told;
}

void StepCoordinator::FinishSave() {
  const std::optional<int64_t> waited = parts_.saves->FinishSave();
  if (!waited.has_value()) return;
  times_.wait_micros = times_.wait_micros.value_or(0) + *waited;
}

void StepCoordinator::Announce(
    const std::optional<SavePolicy::Decision>& wanted,
    const SaveRequest& request, Announcement* announced) {
  announced->step = parts_.progress->global_step();
  announced->error.Update(CallGuarded("deciding on a save", [&] {
    return DecideAndBegin(wanted, request, announced);
  }));
  // After an error no rank has a ticket, so the attempt is given up before the
  // others hear of it.
  NoteDecision(*announced);
  if (announced->error.ok()) return;
  announced->decision.kind = SavePolicy::Kind::kNone;
  GiveUp(announced);
}

// The attempt is swept, whether or not this succeeds.
void StepCoordinator::GiveUp(Announcement* announced) {
  if (announced->version.attempt == 0) return;
  parts_.manager->store->Abandon(announced->version).IgnoreError();
  announced->version = {};
}

absl::Status StepCoordinator::DecideAndBegin(
    const std::optional<SavePolicy::Decision>& wanted,
    const SaveRequest& request, Announcement* announced) {
  bool busy = parts_.saves->in_progress();
  // A decision knows of the save that has ended.
  if (!busy) FinishSave();
  // The save in progress passed this check before its step.
  if (!busy && parts_.manager->options.saving && !request.overwrite) {
    CKPTDB_RETURN_IF_ERROR(parts_.decisions->CheckAhead(announced->step));
  }
  const Clock::time_point begin = Clock::now();
  const DecisionMaker::Question question = {
      announced->step, announced->preempted, request.metrics,
      parts_.saves->unfinished()};
  SavePolicy::Decision& decision = announced->decision;
  // A call of Save has decided already.
  decision = wanted.has_value() ? *wanted : parts_.decisions->Decide(question);
  if (!wanted.has_value() &&
      parts_.decisions->PassPinned(question.step, &decision)) {
    parts_.manager->warnings.Warn(decision.reason);
  }
  times_.planning_micros = MicrosSince(begin);
  if (busy && decision.kind != SavePolicy::Kind::kNone) {
    CKPTDB_ASSIGN_OR_RETURN(
        decision, parts_.decisions->DecideWhenBusy(question, decision));
    busy = decision.kind == SavePolicy::Kind::kNone;
  }
  // The error of a save that is in progress is reported once it has ended, on
  // all ranks.
  announced->finish_save = !busy;
  if (!busy) {
    FinishSave();
    CKPTDB_RETURN_IF_ERROR(parts_.manager->errors.TakeSaveError());
  }
  CKPTDB_ASSIGN_OR_RETURN(
      announced->promoted,
      parts_.decisions->PromoteInstead(announced->preempted, &decision));
  if (decision.kind == SavePolicy::Kind::kNone) return absl::OkStatus();
  return BeginSave(request, announced);
}

// A failure is announced as that of the save, so that every rank reports and
// counts it, as one that comes later. A refusal is the error of this call.
absl::Status StepCoordinator::BeginSave(const SaveRequest& request,
                                        Announcement* announced) {
  absl::Status begun = Begin(request, announced);
  if (IsRefusal(begun)) return begun;
  parts_.decisions->ForgetPutOff();
  if (!begun.ok()) GiveUp(announced);
  announced->begin_error = std::move(begun);
  return absl::OkStatus();
}

absl::Status StepCoordinator::Begin(const SaveRequest& request,
                                    Announcement* announced) {
  const ManagerParts& manager = *parts_.manager;
  times_.begun_at_micros = NowMicros(manager.options);
  SaveSpec spec =
      parts_.lineage->NextSpec(*manager.store, announced->step,
                               manager.options.abandoned, request.overwrite);
  spec.world_size = manager.world_size();
  spec.begun_at_micros = times_.begun_at_micros;
  // The step records the bounds, so that tools can tell which rank has which
  // rows.
  spec.slice_bounds = SliceBoundsOf(manager.shardings);
  CKPTDB_ASSIGN_OR_RETURN(const Store::Attempt save,
                          manager.store->Begin(spec));
  announced->version = save.version;
  tickets_.clear();
  for (const Ticket& ticket : save.tickets) {
    CKPTDB_ASSIGN_OR_RETURN(tickets_.emplace_back(), ticket.Encode());
  }
  // All ranks must know both, as they choose together between changes and all
  // rows.
  announced->whole = !spec.parent.has_value();
  announced->base_reason =
      parts_.lineage->BaseReason(manager.options.base_every);
  return absl::OkStatus();
}

void StepCoordinator::NoteDecision(const Announcement& announced) {
  const bool saved = announced.decision.kind != SavePolicy::Kind::kNone;
  if (announced.error.ok()) {
    parts_.history->NoteSaved(
        announced.step,
        absl::StrCat(saved ? "" : "not saved: ", announced.decision.reason));
  } else if (!parts_.history->Find(announced.step).has_value()) {
    // Else it was saved before, or is known not to be.
    parts_.history->NoteSaved(
        announced.step,
        absl::StrCat("not saved: ", announced.error.ToString()));
  }
}

// Every rank takes note of the save before where the owner has, also when the
// step ends with an error, so that all have the same parent.
absl::StatusOr<CheckpointManager::StepOutcome> StepCoordinator::ApplyDecision(
    Announcement announced, const SaveRequest& request) {
  if (announced.finish_save) FinishSave();
  if (!announced.error.ok()) {
    // The error is also that of this rank's own save, and is told once.
    if (announced.finish_save) {
      parts_.manager->errors.TakeSaveError().IgnoreError();
    }
    return announced.error;
  }
  if (announced.preempted) parts_.preemption->OnAgreed();
  if (announced.promoted) parts_.preemption->OnPromoted(announced.step);
  CheckpointManager::StepOutcome outcome{announced.step, announced.decision,
                                         std::nullopt, announced.preempted};
  if (announced.decision.kind != SavePolicy::Kind::kNone) {
    CKPTDB_RETURN_IF_ERROR(Save(std::move(announced), request, &outcome));
  }
  return outcome;
}

absl::Status StepCoordinator::Save(Announcement announced,
                                   const SaveRequest& request,
                                   CheckpointManager::StepOutcome* outcome) {
  parts_.progress->OnSaved();
  if (times_.wait_micros.has_value()) {
    parts_.manager->warnings.WarnOfWaiting(
        announced.step, absl::Microseconds(*times_.wait_micros));
  }
  SaveStart start;
  start.ticket = announced.begin_error.ok()
                     ? TakeTicket(announced.version.attempt)
                     : announced.begin_error;
  start.announced = std::move(announced);
  start.request = request;
  start.answers_preemption = parts_.preemption->TakeUnanswered();
  start.begun_at_micros = times_.begun_at_micros;
  start.called_at = times_.called_at;
  start.wait_micros = times_.wait_micros;
  start.planning_micros = times_.planning_micros;
  outcome->save = PendingSave(parts_.saves->Start(std::move(start)));
  // Without a thread of its own the save is over here, and its error is that of
  // this call.
  if (parts_.saves->beside()) return absl::OkStatus();
  FinishSave();
  return parts_.manager->errors.TakeSaveError();
}

// A ticket has the record of its rank in the parent, so each rank is sent its
// own alone. A rank that does not get it fails the save, in which it goes on
// with the others.
absl::StatusOr<std::string> StepCoordinator::TakeTicket(uint32_t attempt) {
  const ManagerParts& manager = *parts_.manager;
  std::vector<std::string> tickets = std::exchange(tickets_, {});
  if (manager.world_size() == 1) return std::move(tickets.front());
  return manager.ranks->TellEach(absl::StrCat("ticket of attempt ", attempt),
                                 std::move(tickets), manager.options.deadline);
}

}  // namespace ckptdb::internal
