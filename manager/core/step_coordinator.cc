// SPDX-License-Identifier: Apache-2.0
#include "manager/core/step_coordinator.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "db/base/call_guard.h"
#include "manager/policy/now_micros.h"
#include "manager/policy/outlook.h"
#include "manager/ranks/messages.h"
#include "manager/state/micros_since.h"
#include "manager/state/model_sharding.h"
#include "schema/bytes/annotate.h"
#include "schema/status.h"

namespace ckptdb::internal {
namespace {

// Returns whether the store refused a save, and would again until the caller
// acts. Only failures are counted and may be tolerated, refusals are not.
bool IsRefusal(const absl::Status& status) {
  return absl::IsAlreadyExists(status) || absl::IsInvalidArgument(status) ||
         absl::IsFailedPrecondition(status);
}

std::string WhySilent(int64_t due_step) {
  constexpr absl::string_view kWhy = "the ranks did not meet at this step: ";
  if (due_step == kNoStep) {
    return absl::StrCat(kWhy, "no step is due by its number");
  }
  return absl::StrCat(kWhy, "the next one due by its number is ", due_step);
}

}  // namespace

absl::StatusOr<StepOutcome> StepCoordinator::DecideAndSave(
    const std::optional<Wanted>& wanted, const SaveRequest& request) {
  if (!wanted.has_value() && parts_.manager->world_size() > 1) {
    pace_.CountStep();
    CKPTDB_ASSIGN_OR_RETURN(std::optional<StepOutcome> alone,
                            StepAlone(request.metrics));
    if (alone.has_value()) return *std::move(alone);
  }
  exchange_.MeetNext();
  absl::StatusOr<StepOutcome> outcome = Meet(wanted, request);
  pace_.OnMeetingEnd(Clock::now());
  return outcome;
}

// Returns nothing if the ranks meet at the step.
absl::StatusOr<std::optional<StepOutcome>> StepCoordinator::StepAlone(
    const Metrics& metrics) {
  const int64_t step = parts_.progress->global_step();
  const NoticeExchange::Turn turn = exchange_.Next(step);
  bool meets = turn.meets;
  if (turn.begins || turn.ends) {
    CKPTDB_ASSIGN_OR_RETURN(meets, Exchange(turn, step, metrics));
  }
  if (meets) return std::optional<StepOutcome>();
  if (parts_.manager->is_owner()) {
    parts_.history->NoteSaved(step, absl::StrCat("not saved: ", why_silent_));
  }
  return std::optional<StepOutcome>(StepOutcome{
      step, {SavePolicy::Kind::kNone, why_silent_}, std::nullopt, false});
}

absl::StatusOr<bool> StepCoordinator::Exchange(NoticeExchange::Turn turn,
                                               int64_t step,
                                               const Metrics& metrics) {
  if (turn.begins) {
    CKPTDB_RETURN_IF_ERROR(exchange_.Begin(step, OwnVote(step, metrics)));
  }
  if (!turn.ends) return false;
  CKPTDB_ASSIGN_OR_RETURN(const Vote all, exchange_.End());
  if (all.meet || step >= all.plan.due_step) return true;
  exchange_.Follow(all.plan);
  why_silent_ = WhySilent(all.plan.due_step);
  return false;
}

// Errors stay on their ranks until the ranks meet. The owner, which also has
// the error of a save, announces it.
Vote StepCoordinator::OwnVote(int64_t step, const Metrics& metrics) {
  const ManagerParts& manager = *parts_.manager;
  Vote vote;
  vote.meet =
      parts_.preemption->pending() || !manager.errors.PeekError().ok() ||
      (manager.options.save.enabled && !parts_.lineage->CheckWritten().ok());
  if (!manager.is_owner()) return vote;
  pace_.OnExchange(Clock::now());
  // Before the end of an exchange a part of the planned steps is measured.
  const StepPlan& plan = exchange_.plan();
  const int64_t planned = plan.begin_in < plan.end_in ? plan.end_in : 0;
  const absl::StatusOr<bool> must_meet =
      CallGuarded("deciding on a meeting", [&] {
        vote.plan = PlanFrom(step, planned);
        return MustMeet(step, metrics);
      });
  // The meeting returns the error, if it occurs again.
  vote.meet = vote.meet || must_meet.value_or(true);
  return vote;
}

// Returns whether a meeting at the step would do anything. Its decision may
// depend on the time; a save that has ended is applied in a meeting.
absl::StatusOr<bool> StepCoordinator::MustMeet(int64_t step,
                                               const Metrics& metrics) const {
  const ManagerOptions& options = parts_.manager->options;
  const bool busy = parts_.saves->in_progress();
  const std::optional<StepInfo> saving = parts_.saves->unfinished();
  if (options.ranks.notice_interval == absl::ZeroDuration()) return true;
  if (!busy && saving.has_value()) return true;
  if (!busy && !parts_.manager->errors.PeekError().ok()) return true;
  if (!busy && options.save.enabled) {
    CKPTDB_RETURN_IF_ERROR(parts_.decisions->CheckAhead(step));
  }
  return parts_.decisions->Decide({step, /*preempted=*/false, metrics, saving})
             .kind != SavePolicy::Kind::kNone;
}

absl::StatusOr<StepOutcome> StepCoordinator::Meet(
    const std::optional<Wanted>& wanted, const SaveRequest& request) {
  ManagerParts& manager = *parts_.manager;
  times_ = Times();
  times_.called_at = Clock::now();
  Announcement own;
  own.error = GatherNotices(!wanted.has_value(), &own.preempted);
  pace_.OnMeeting(Clock::now());
  if (own.error.ok() && manager.is_owner()) Announce(wanted, request, &own);
  if (manager.world_size() == 1) {
    return ApplyDecision(std::move(own), request);
  }
  const absl::StatusOr<std::string> bytes = BroadcastAnnouncement(
      absl::StrCat("step ", parts_.progress->global_step()), Encode(own));
  if (!bytes.ok()) {
    AbandonAttempt(&own);
    return bytes.status();
  }
  Announcement announced;
  CKPTDB_RETURN_IF_ERROR(Decode(*bytes, &announced));
  return ApplyDecision(std::move(announced), request);
}

absl::StatusOr<SavePolicy::Decision> StepCoordinator::WouldSave(
    int64_t step, const Metrics& metrics) {
  ManagerParts& manager = *parts_.manager;
  exchange_.MeetNext();
  Announcement own;
  own.error = GatherNotices(/*is_step=*/true, &own.preempted);
  if (own.error.ok() && manager.is_owner()) {
    own = PreviewDecision(step, metrics, std::move(own));
  }
  if (manager.world_size() > 1) {
    CKPTDB_ASSIGN_OR_RETURN(
        const std::string bytes,
        BroadcastAnnouncement(absl::StrCat("whether step ", step, " is saved"),
                              Encode(own)));
    CKPTDB_RETURN_IF_ERROR(Decode(bytes, &own));
    if (own.finish_save) CKPTDB_RETURN_IF_ERROR(FinishSave());
  }
  CKPTDB_RETURN_IF_ERROR(own.error);
  return own.decision;
}

Announcement StepCoordinator::PreviewDecision(int64_t step,
                                              const Metrics& metrics,
                                              Announcement announced) {
  const bool busy = parts_.saves->in_progress();
  // The answer must equal that of StepTo, which would finish a save that has
  // ended.
  if (!busy) announced.error = FinishSave();
  if (!announced.error.ok()) return announced;
  announced.finish_save = !busy;
  absl::StatusOr<SavePolicy::Decision> decision = CallGuarded(
      "deciding on a save", [&]() -> absl::StatusOr<SavePolicy::Decision> {
        if (!busy && parts_.manager->options.save.enabled) {
          CKPTDB_RETURN_IF_ERROR(parts_.decisions->CheckAhead(step));
        }
        return parts_.decisions->WouldSave(
            {step, announced.preempted, metrics, parts_.saves->unfinished()});
      });
  announced.error = decision.status();
  if (decision.ok()) announced.decision = *std::move(decision);
  return announced;
}

// Gathers, to the owner, whether any rank is preempted and the exceptions that
// callbacks threw. Only a step reports a preemption to its caller, so other
// calls do not gather it.
absl::Status StepCoordinator::GatherNotices(bool is_step, bool* preempted) {
  ManagerParts& manager = *parts_.manager;
  *preempted = is_step && parts_.preemption->pending();
  callback_error_ = manager.errors.TakeCallbackError();
  absl::Status own = callback_error_;
  // If the model is only partly written on one rank, no rank saves it.
  if (manager.options.save.enabled) {
    own.Update(parts_.lineage->CheckWritten());
    own.Update(CheckTables(*manager.model, manager.shardings));
  }
  if (manager.world_size() == 1) return own;
  const auto notices = manager.ranks->Gather(
      absl::StrCat("notices at step ", parts_.progress->global_step()),
      Encode(Notice{*preempted, own}), manager.options.ranks.deadline);
  if (!notices.ok()) {
    manager.errors.NoteCallback(callback_error_);  // for the next call
    return notices.status();
  }
  absl::Status thrown;
  for (size_t rank = 0; rank < notices->size(); ++rank) {
    Notice notice;
    notice.error.Update(Decode((*notices)[rank], &notice));
    if (notice.preempted) *preempted = true;
    // All ranks return the error of the lowest rank that has one.
    thrown.Update(Annotate(notice.error, absl::StrCat("rank ", rank)));
  }
  return thrown;
}

// Returns the owner's announcement. If that fails, this rank's callback error
// was not reported, so it is kept for the next call.
absl::StatusOr<std::string> StepCoordinator::BroadcastAnnouncement(
    const std::string& tag, std::string announced) {
  ManagerParts& manager = *parts_.manager;
  absl::StatusOr<std::string> told = manager.ranks->Tell(
      tag, std::move(announced),
      AfterGather(*manager.ranks, manager.options.ranks.deadline));
  if (!told.ok()) manager.errors.NoteCallback(callback_error_);
  return told;
}

absl::Status StepCoordinator::FinishSave() {
  return parts_.saves->FinishSave(SaveRunner::Poll::kAlone,
                                  &times_.wait_micros);
}

void StepCoordinator::Announce(const std::optional<Wanted>& wanted,
                               const SaveRequest& request,
                               Announcement* announced) {
  announced->step = parts_.progress->global_step();
  announced->error.Update(CallGuarded("deciding on a save", [&] {
    CKPTDB_RETURN_IF_ERROR(DecideAndBegin(wanted, request, announced));
    if (!wanted.has_value()) PlanAfter(announced);
    return absl::OkStatus();
  }));
  // After an error no rank receives a ticket, so the attempt is abandoned
  // before the others are notified.
  NoteDecision(*announced);
  if (announced->error.ok()) return;
  announced->decision.kind = SavePolicy::Kind::kNone;
  AbandonAttempt(announced);
}

// Ranks meet at the step after a save, which may fail at once, and at each step
// until a preemption is answered.
void StepCoordinator::PlanAfter(Announcement* announced) const {
  const ManagerParts& manager = *parts_.manager;
  if (manager.world_size() == 1 || announced->preempted ||
      announced->decision.kind != SavePolicy::Kind::kNone ||
      parts_.preemption->pending() || parts_.saves->answers_preemption() ||
      manager.options.ranks.notice_interval == absl::ZeroDuration()) {
    return;
  }
  announced->plan = PlanFrom(announced->step, 0);
}

// Ranks exchange notices for what only one of them knows: a preemption, an
// error, that it is time to save, or the messages that it has lost, which the
// owner sends again in its calls. A notice waits for the next exchange to begin
// and to end, so these calls divide the interval by three. If fewer steps fit,
// ranks wait for each other, which takes little of such steps.
StepPlan StepCoordinator::PlanFrom(int64_t step, int64_t planned) const {
  const ManagerOptions::Ranks& ranks = parts_.manager->options.ranks;
  const absl::Duration interval =
      std::min(ranks.notice_interval, ranks.deadline);
  StepPlan plan;
  plan.due_step = parts_.decisions->NextDue(
      {step, /*preempted=*/false, Metrics(), parts_.saves->unfinished()});
  plan.end_in = pace_.StepsWithin(2 * interval / 3, planned);
  plan.begin_in = plan.end_in - plan.end_in / 2;
  if (plan.end_in == 1) {
    plan.begin_in = plan.end_in = pace_.StepsWithin(interval, planned);
  }
  return plan;
}

// A later sweep deletes the attempt, whether or not this succeeds.
void StepCoordinator::AbandonAttempt(Announcement* announced) {
  if (announced->version.attempt == 0) return;
  parts_.manager->store->Abandon(announced->version).IgnoreError();
  announced->version = {};
}

absl::Status StepCoordinator::DecideAndBegin(
    const std::optional<Wanted>& wanted, const SaveRequest& request,
    Announcement* announced) {
  bool busy = parts_.saves->in_progress();
  // The decision takes the outcome of a save that has ended into account.
  if (!busy) CKPTDB_RETURN_IF_ERROR(FinishSave());
  // The save in progress passed this check before its step.
  if (!busy && parts_.manager->options.save.enabled && !request.overwrite) {
    CKPTDB_RETURN_IF_ERROR(parts_.decisions->CheckAhead(announced->step));
  }
  const Clock::time_point begin = Clock::now();
  const DecisionMaker::Question question = {
      announced->step, announced->preempted, request.metrics,
      parts_.saves->unfinished(), wanted.has_value()};
  SavePolicy::Decision& decision = announced->decision;
  decision = wanted.has_value() ? wanted->decision
                                : parts_.decisions->Decide(question);
  if (!wanted.has_value() &&
      parts_.decisions->SkipTaken(question.step, &decision)) {
    parts_.manager->warnings.Warn(decision.reason);
  }
  times_.planning_micros = MicrosSince(begin);
  if (busy && decision.kind != SavePolicy::Kind::kNone) {
    CKPTDB_ASSIGN_OR_RETURN(
        decision, parts_.decisions->DecideWhenBusy(question, decision));
    busy = decision.kind == SavePolicy::Kind::kNone;
  }
  // The error of a save in progress is reported once it has ended, on all
  // ranks.
  if (busy) return absl::OkStatus();
  CKPTDB_RETURN_IF_ERROR(FinishSave());
  announced->finish_save = true;
  CKPTDB_RETURN_IF_ERROR(parts_.manager->errors.TakeSaveError());
  const bool ends_preempted = wanted.has_value() && wanted->ends_training &&
                              parts_.preemption->pending();
  CKPTDB_ASSIGN_OR_RETURN(
      announced->promoted,
      parts_.decisions->PromoteInstead(announced->preempted || ends_preempted,
                                       &decision));
  if (decision.kind == SavePolicy::Kind::kNone) return absl::OkStatus();
  return BeginSave(request, announced);
}

// A failure is announced as the save's, so that every rank reports and counts
// it like a later one. A refusal is this call's error.
absl::Status StepCoordinator::BeginSave(const SaveRequest& request,
                                        Announcement* announced) {
  absl::Status begun = BeginAttempt(request, announced);
  if (IsRefusal(begun)) return begun;
  parts_.decisions->OnSaveBegun(announced->decision.kind);
  if (!begun.ok()) AbandonAttempt(announced);
  announced->begin_error = std::move(begun);
  return absl::OkStatus();
}

absl::Status StepCoordinator::BeginAttempt(const SaveRequest& request,
                                           Announcement* announced) {
  const ManagerParts& manager = *parts_.manager;
  times_.begun_at_micros = NowMicros(manager.options);
  SaveSpec spec = parts_.lineage->NextSpec(*manager.store, announced->step,
                                           manager.options.restore.abandoned,
                                           request.overwrite);
  spec.world_size = manager.world_size();
  spec.begun_at_micros = times_.begun_at_micros;
  // The step records the slice bounds, so that tools can tell which rank stores
  // which rows.
  spec.slice_bounds = SliceBoundsOf(manager.shardings);
  CKPTDB_ASSIGN_OR_RETURN(const Store::Attempt save,
                          manager.store->Begin(spec));
  announced->version = save.version;
  own_ticket_ = save.tickets[kOwnerRank];
  sent_tickets_.assign(save.tickets.size(), "");
  for (size_t rank = kOwnerRank + 1; rank < save.tickets.size(); ++rank) {
    CKPTDB_ASSIGN_OR_RETURN(sent_tickets_[rank], save.tickets[rank].Encode());
  }
  // All ranks need these, as they choose together between changes and full
  // tables, and a rank that missed an outcome has another parent.
  announced->whole = !spec.parent.has_value();
  announced->parent = spec.parent.value_or(Version());
  announced->base_reason =
      parts_.lineage->BaseReason(manager.options.save.base_every);
  return absl::OkStatus();
}

void StepCoordinator::NoteDecision(const Announcement& announced) {
  const bool saved = announced.decision.kind != SavePolicy::Kind::kNone;
  if (announced.error.ok()) {
    parts_.history->NoteSaved(
        announced.step,
        absl::StrCat(saved ? "" : "not saved: ", announced.decision.reason));
  } else if (!parts_.history->Find(announced.step).has_value()) {
    // Otherwise it was saved before, or the history has the reason why not.
    parts_.history->NoteSaved(
        announced.step,
        absl::StrCat("not saved: ", announced.error.ToString()));
  }
}

// Every rank finishes the previous save if the owner did, even if the step ends
// with an error, so that all have the same parent.
absl::StatusOr<StepOutcome> StepCoordinator::ApplyDecision(
    Announcement announced, const SaveRequest& request) {
  if (announced.error.ok()) {
    exchange_.Follow(announced.plan);
    why_silent_ = WhySilent(announced.plan.due_step);
  }
  if (announced.finish_save) CKPTDB_RETURN_IF_ERROR(FinishSave());
  if (!announced.error.ok()) {
    // This rank's own save has the same error, which is reported once.
    if (announced.finish_save) {
      parts_.manager->errors.TakeSaveError().IgnoreError();
    }
    return announced.error;
  }
  if (announced.preempted) parts_.preemption->OnAgreed();
  if (announced.promoted) parts_.preemption->OnPromoted(announced.step);
  StepOutcome outcome{announced.step, announced.decision, std::nullopt,
                      announced.preempted};
  if (announced.decision.kind != SavePolicy::Kind::kNone) {
    CKPTDB_RETURN_IF_ERROR(Save(std::move(announced), request, &outcome));
  }
  return outcome;
}

absl::Status StepCoordinator::Save(Announcement announced,
                                   const SaveRequest& request,
                                   StepOutcome* outcome) {
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
  absl::Status interrupted = parts_.saves->Start(std::move(start));
  outcome->save = PendingSave(parts_.saves->current());
  if (parts_.saves->in_background()) return interrupted;
  // The save has ended, and its error is this call's.
  CKPTDB_RETURN_IF_ERROR(FinishSave());
  interrupted.Update(parts_.manager->errors.TakeSaveError());
  return interrupted;
}

// A ticket holds its rank's record of the parent, so each rank is sent only its
// own. A rank that does not receive it fails the save, but takes part in it
// until the others know.
absl::StatusOr<Ticket> StepCoordinator::TakeTicket(uint32_t attempt) {
  const ManagerParts& manager = *parts_.manager;
  if (manager.world_size() == 1) return std::exchange(own_ticket_, {});
  CKPTDB_ASSIGN_OR_RETURN(
      const std::string bytes,
      manager.ranks->TellEach(absl::StrCat("ticket of attempt ", attempt),
                              std::exchange(sent_tickets_, {}),
                              manager.options.ranks.deadline));
  if (manager.is_owner()) return std::exchange(own_ticket_, {});
  return CallGuarded("decoding the ticket",
                     [&] { return Ticket::Decode(bytes); });
}

}  // namespace ckptdb::internal
