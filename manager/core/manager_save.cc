// How a manager saves what was announced: copied while the training waits,
// staged and published beside it.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "ckptdb/db/base/call_guard.h"
#include "ckptdb/db/stager.h"
#include "ckptdb/manager/core/manager_impl.h"
#include "ckptdb/manager/save/delta_audit.h"
#include "ckptdb/schema/annotate.h"
#include "ckptdb/schema/staged.h"
#include "ckptdb/schema/status.h"

namespace ckptdb {
namespace {

using internal::Announcement;
using internal::BaseReasons;
using internal::CallGuarded;
using internal::Outcome;
using internal::SavePart;

// Why a step was saved, in its record.
constexpr char kSavedBecause[] = "ckptdb.saved_because";

}  // namespace

std::unique_ptr<CheckpointManager::Impl::Round>
CheckpointManager::Impl::NewRound(Announcement announced,
                                  const SaveRequest& request) {
  auto round = std::make_unique<Round>();
  round->request = request;
  round->request.kind = announced.decision.kind;
  round->announced = std::move(announced);
  round->pending = NewPending(round->announced.step);
  round->begin =
      called_ + std::chrono::microseconds(waited_micros_.value_or(0));
  round->begun_at_micros = begun_at_micros_;
  round->abandoned = abandoned_steps_;
  round->source = source_;
  round->answers_preemption = std::exchange(preemption_open_, false);
  SaveReport& report = round->report;
  report.step = round->announced.step;
  report.kind = round->announced.decision.kind;
  report.why = round->announced.decision.why;
  report.waited_micros = waited_micros_.value_or(0);
  report.planning_micros = planning_micros_;
  return round;
}

// What every rank does with an announcement.
absl::StatusOr<StepOutcome> CheckpointManager::Impl::Follow(
    Announcement announced, const SaveRequest& request) {
  if (announced.settle) Settle();
  if (!announced.error.ok()) {
    // The error is also that of this rank's own save, and is told once.
    if (announced.settle) TakeSaveError().IgnoreError();
    return announced.error;
  }
  NotePreemption(announced);
  StepOutcome outcome{announced.step, announced.decision, std::nullopt,
                      announced.preempted};
  if (announced.decision.kind == SaveKind::kNone) return outcome;

  before_first_step_ = false;
  round_ = NewRound(std::move(announced), request);
  Round* const round = round_.get();
  outcome.save = PendingSave(round->pending);
  WarnOfWaiting(round->report);
  round->part.status = Capture(round);
  if (round->copied || !round->part.status.ok()) LetTrainingGo(round);
  if (options_.async && StartRound(round)) {
    round->model_is_read.get_future().wait();
    return outcome;
  }
  RunRound(round);
  Settle();
  CKPTDB_RETURN_IF_ERROR(TakeSaveError());
  return outcome;
}

void CheckpointManager::Impl::WarnOfWaiting(const SaveReport& report) const {
  const absl::Duration waited = absl::Microseconds(report.waited_micros);
  if (!waited_micros_.has_value() || waited < options_.warn_waiting) return;
  Warn(absl::StrCat("the save of step ", report.step, " waited ",
                    absl::FormatDuration(waited), " for the one before it"));
}

// False when the machine has no thread for it.
bool CheckpointManager::Impl::StartRound(Round* round) {
  round->beside = CallGuarded("starting the thread of saves", [&] {
                    save_thread_.Run([this, round] { RunRound(round); });
                  }).ok();
  return round->beside;
}

// The model as it is now: copied, or else staged, so that it may change.
absl::Status CheckpointManager::Impl::Capture(Round* round) {
  absl::Status taken;
  if (feed_ != nullptr) {
    absl::StatusOr<internal::ChangeSets> sets = CallGuarded(
        "taking the changed rows", [this] { return feed_->Take(); });
    taken = sets.status();
    if (sets.ok()) round->changes = *std::move(sets);
  }
  // All ranks come to it, also those that have failed.
  CKPTDB_ASSIGN_OR_RETURN(BaseReasons bases, AgreeOnBases(*round));
  CKPTDB_RETURN_IF_ERROR(taken);
  CKPTDB_RETURN_IF_ERROR(CallGuarded(
      "auditing the changes", [&] { return AuditDeltas(bases, *round); }));
  return CallGuarded("copying the model",
                     [&] { return TakeSnapshot(std::move(bases), round); });
}

// Audits the tables that are saved as deltas, each rank its own rows.
absl::Status CheckpointManager::Impl::AuditDeltas(const BaseReasons& bases,
                                                  const Round& round) const {
  if (!options_.audit_deltas || feed_ == nullptr || round.announced.whole) {
    return absl::OkStatus();
  }
  std::unique_ptr<Reader> reader;  // goes after what it has opened
  std::unique_ptr<StepReader> parent;
  if (is_owner()) {
    CKPTDB_ASSIGN_OR_RETURN(parent, store_->OpenStep(parent_->step));
  } else {
    CKPTDB_ASSIGN_OR_RETURN(reader, Reader::Open(options_.path, HowToRead()));
    CKPTDB_ASSIGN_OR_RETURN(parent, reader->OpenStep(parent_->step));
  }
  for (size_t t = 0; t < round.changes.size(); ++t) {
    const ModelState::Table& table = model_->tables()[t];
    if (!round.changes[t].has_value() || bases.contains(table.name)) continue;
    // The owner's rows and marks are those that are saved.
    const bool replicated = shardings_[t].kind() == ShardingKind::kReplicated;
    if (replicated && !is_owner()) continue;
    CKPTDB_RETURN_IF_ERROR(
        internal::AuditTable(*parent, table, shardings_[t], *round.changes[t],
                             ranks_->rank(), world_size(), options_.read));
  }
  return absl::OkStatus();
}

absl::Status CheckpointManager::Impl::TakeSnapshot(BaseReasons bases,
                                                   Round* round) {
  internal::SnapshotSpec spec;
  spec.owner = is_owner();
  spec.bases = std::move(bases);
  spec.shardings = shardings_;
  if (feed_ != nullptr) spec.changes = &round->changes;
  CKPTDB_ASSIGN_OR_RETURN(round->snapshot,
                          internal::Snapshot::Of(*model_, spec));
  for (const ModelState::Table& table : model_->tables()) {
    round->columns[table.name] = table.state->slots();
  }
  if (options_.async && round->snapshot->bytes() <= arena_.max_bytes()) {
    round->report.copied_bytes = round->snapshot->bytes();
    round->copied = true;
    return round->snapshot->CopyTo(&arena_, options_.copy_threads);
  }
  return absl::OkStatus();
}

// The model may change now. Nothing more than once.
void CheckpointManager::Impl::LetTrainingGo(Round* round) {
  if (std::exchange(round->model_read, true)) return;
  round->report.blocking_micros = MicrosSince(called_);
  round->pending->SetStaged(round->part.status);
  round->model_is_read.set_value();
}

BaseReasons CheckpointManager::Impl::OwnBases(const Round& round) const {
  BaseReasons bases = internal::IncompleteTables(*model_, round.changes);
  // Only the marks of the rank that saves a table say whether they do.
  for (size_t t = 0; t < shardings_.size() && !is_owner(); ++t) {
    if (shardings_[t].kind() != ShardingKind::kReplicated) continue;
    bases.erase(model_->tables()[t].name);
  }
  for (const ModelState::Table& table : model_->tables()) {
    if (round.announced.whole) {
      bases.emplace(table.name, "the save goes on from no step");
      continue;
    }
    const auto before = parent_columns_.find(table.name);
    if (before == parent_columns_.end()) {
      bases.emplace(table.name, "the parent has no such table");
    } else if (!SameColumns(before->second, table.state->slots())) {
      bases.emplace(table.name, "its slots are not those of the parent");
    }
    const std::string& all = round.announced.base_reason;
    if (!all.empty()) bases.emplace(table.name, all);
  }
  return bases;
}

// Which tables are saved whole although they could be saved as changes: those
// of which one rank says so.
absl::StatusOr<BaseReasons> CheckpointManager::Impl::AgreeOnBases(
    const Round& round) {
  if (feed_ == nullptr) return BaseReasons();
  absl::StatusOr<BaseReasons> own =
      CallGuarded("TableState", [&] { return OwnBases(round); });
  if (world_size() == 1 || round.announced.whole) return own;
  BaseReasons bases = own.value_or(BaseReasons());
  const std::string tag =
      absl::StrCat("bases of attempt ", round.announced.version.attempt);
  CKPTDB_ASSIGN_OR_RETURN(
      const std::vector<std::string> parts,
      ranks_->Gather(tag, internal::Encode(bases), options_.deadline));
  for (const std::string& part : parts) {
    BaseReasons other;
    CKPTDB_RETURN_IF_ERROR(internal::Decode(part, &other));
    bases.merge(other);
  }
  CKPTDB_ASSIGN_OR_RETURN(
      const std::string all,
      ranks_->Broadcast(tag, internal::Encode(bases),
                        AfterGather(*ranks_, options_.deadline)));
  bases.clear();
  CKPTDB_RETURN_IF_ERROR(internal::Decode(all, &bases));
  CKPTDB_RETURN_IF_ERROR(own.status());
  return bases;
}

// What was not copied as a whole is copied as far as there is memory, and the
// rest is read while the training waits.
absl::StatusOr<StagedRank> CheckpointManager::Impl::StageState(Round* round) {
  CKPTDB_ASSIGN_OR_RETURN(
      const Ticket ticket,
      DecodeTicket(round->announced.tickets[ranks_->rank()]));
  StageCopies copies;
  if (!round->copied) {
    if (options_.async) {
      copies.memory = arena_.Reserve(arena_.max_bytes());
      if (copies.memory != nullptr) copies.bytes = arena_.max_bytes();
    }
    copies.on_read = [&](uint64_t copied_bytes) {
      round->report.copied_bytes = copied_bytes;
      LetTrainingGo(round);
    };
  }
  return StageWithCopies(options_.path, ticket, round->snapshot->state(),
                         options_.stage, copies);
}

// From the copy to the end of the save: beside the training, or instead of it.
// What it calls of the trainer's must not call the manager.
void CheckpointManager::Impl::RunRound(Round* round) {
  const internal::CallGate::Call call(&gate_);
  const absl::Status saved = CallGuarded("saving", [&] { Carry(round); });
  if (!saved.ok() && round->outcome.status.ok()) {
    round->outcome.status = saved;
  }
  if (round->part.status.ok()) round->part.status = saved;
  LetTrainingGo(round);
  Finish(round);
}

// Stages, and commits with all ranks.
void CheckpointManager::Impl::Carry(Round* round) {
  StagePart(round);
  LetTrainingGo(round);
  if (world_size() > 1) return CarryWithAll(round);
  round->outcome = Commit(round, CollectParts({""}, round));
}

void CheckpointManager::Impl::StagePart(Round* round) {
  if (round->part.status.ok() && !round->pending->cancelled()) {
    absl::StatusOr<StagedRank> staged =
        CallGuarded("staging", [&] { return StageState(round); });
    round->part.status = staged.status();
    if (staged.ok()) round->part.staged = *std::move(staged);
    round->report.staged_micros = MicrosSince(round->begin);
  }
  if (round->pending->cancelled()) {
    round->part.status.Update(absl::CancelledError(absl::StrCat(
        "the save of step ", round->announced.step, " was cancelled")));
  }
}

// The owner's own part goes nowhere.
void CheckpointManager::Impl::CarryWithAll(Round* round) {
  const std::string tag =
      absl::StrCat("attempt ", round->announced.version.attempt);
  std::string own_part;
  if (!is_owner()) {
    own_part =
        Encode(SavePart{round->part.status, std::move(round->part.staged)});
  }
  const auto parts =
      background_ranks_->Gather(tag, std::move(own_part), options_.deadline);
  Outcome own;
  own.status = parts.status();
  if (is_owner()) {
    if (parts.ok()) {
      own = Commit(round, CollectParts(*parts, round));
    } else {
      // Swept, whether or not this succeeds.
      store_->Abandon(round->announced.version).IgnoreError();
    }
  }
  const absl::StatusOr<std::string> all = background_ranks_->Broadcast(
      tag, Encode(own), AfterGather(*background_ranks_, options_.deadline));
  round->outcome = own;
  // What the owner has committed is committed, whoever heard of it.
  if (!is_owner()) {
    round->outcome.status = all.status();
    if (all.ok()) {
      round->outcome.status.Update(Decode(*all, &round->outcome));
    }
  }
}

Outcome CheckpointManager::Impl::Commit(
    Round* round, const absl::StatusOr<std::vector<StagedRank>>& staged) {
  Outcome outcome;
  const SaveRequest& request = round->request;
  outcome.status = staged.status();
  if (staged.ok()) {
    PublishSpec publish;
    publish.metrics = request.metrics;
    publish.user_metadata = options_.user_metadata;
    for (const auto& [name, value] : request.user_metadata) {
      publish.user_metadata[name] = value;
    }
    publish.user_metadata[kSavedBecause] = round->announced.decision.why;
    publish.ephemeral = request.kind == SaveKind::kEphemeral;
    publish.bounds = options_.bounds;
    // Another thread may pin or delete a step that was to leave meanwhile: then
    // nothing was published, and what leaves is planned anew.
    constexpr int kTries = 10;
    for (int i = 0; i < kTries; ++i) {
      outcome.status = PlanAndPublish(*round, *staged, &publish, &outcome);
      const bool changed = absl::IsFailedPrecondition(outcome.status) ||
                           absl::IsNotFound(outcome.status);
      if (!changed || publish.retire.empty()) break;
    }
    if (outcome.status.ok()) outcome.retired = publish.retire;
  }
  if (!outcome.status.ok()) {
    store_->Abandon(round->announced.version).IgnoreError();
  }
  return outcome;
}

absl::Status CheckpointManager::Impl::PlanAndPublish(
    Round& round, const std::vector<StagedRank>& staged, PublishSpec* publish,
    Outcome* outcome) {
  publish->retire.clear();
  const Clock::time_point begin = Clock::now();
  // Retention asks for metrics and pins. What goes wrong with a post is told by
  // WarnOfPosts, and does not end a save.
  store_->TakePosts().IgnoreError();
  absl::StatusOr<std::vector<int64_t>> retired =
      CallGuarded("RetentionOptions::keep or ManagerOptions::now_micros", [&] {
        publish->committed_at_micros = NowMicros();
        return StepsToRetire(round, *publish->committed_at_micros);
      });
  round.report.planning_micros += MicrosSince(begin);
  CKPTDB_RETURN_IF_ERROR(retired.status());
  publish->retire = *std::move(retired);
  CKPTDB_ASSIGN_OR_RETURN(
      outcome->result,
      store_->Publish(round.announced.version, staged, *publish));
  return absl::OkStatus();
}

// The owner's own part, and those that the other ranks have sent; or the error
// of the lowest rank that has one.
absl::StatusOr<std::vector<StagedRank>> CheckpointManager::Impl::CollectParts(
    const std::vector<std::string>& parts, Round* round) {
  std::vector<StagedRank> staged;
  for (size_t rank = 0; rank < parts.size(); ++rank) {
    SavePart part;
    if (rank == kOwnerRank) {
      part = {round->part.status, std::move(round->part.staged)};
    } else {
      CKPTDB_RETURN_IF_ERROR(Decode(parts[rank], &part));
    }
    if (!part.status.ok() && parts.size() > 1) {
      return internal::Annotate(part.status, absl::StrCat("rank ", rank));
    }
    CKPTDB_RETURN_IF_ERROR(part.status);
    staged.push_back(std::move(part.staged));
  }
  return staged;
}

std::vector<int64_t> CheckpointManager::Impl::StepsToRetire(
    const Round& round, int64_t now_micros) {
  internal::Retirement::Commit commit;
  commit.now_micros = now_micros;
  commit.saved = {round.announced.step, round.begun_at_micros,
                  round.request.kind == SaveKind::kEphemeral,
                  round.request.metrics};
  if (options_.abandoned == AbandonedBranch::kRemove) {
    commit.abandoned = round.abandoned;
  }
  commit.source = round.source;
  std::vector<int64_t> retired;
  for (const internal::RetentionDecision& decision :
       retirement_.Plan(*store_, commit)) {
    retired.push_back(decision.step);
    history_.NoteKept(decision.step, absl::StrCat("removed: ", decision.why));
  }
  return retired;
}

// Of a step that is there.
std::string CheckpointManager::Impl::WhyKept(int64_t step) const {
  const std::optional<internal::RetentionDecision> decision =
      retirement_.DecisionOf(step);
  if (!decision.has_value()) {
    return "kept: no step was saved since this manager was made";
  }
  return absl::StrCat(decision->stays ? "kept: " : "removed: ", decision->why);
}

absl::StatusOr<StepStory> CheckpointManager::Impl::Explain(int64_t step) const {
  CKPTDB_RETURN_IF_ERROR(CheckOwner());
  const std::optional<StepStory> noted = history_.Find(step);
  const absl::StatusOr<StepRecord> record = store_->FindStep(step);
  if (!noted.has_value() && !record.ok()) return record.status();
  StepStory story = noted.value_or(StepStory());
  if (story.saved.empty() && record.ok()) {
    const auto why = record->user_metadata.find(kSavedBecause);
    story.saved = why == record->user_metadata.end()
                      ? "not by a manager, or by an older one"
                      : why->second;
  }
  if (record.ok()) story.kept = WhyKept(step);
  if (story.kept.empty()) story.kept = "not there";
  return story;
}

}  // namespace ckptdb
