// SPDX-License-Identifier: Apache-2.0
#include "manager/save/save_operation.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "db/base/call_guard.h"
#include "db/base/staging.h"
#include "db/state.h"
#include "manager/ranks/message_codec.h"
#include "manager/save/base_reasons.h"
#include "manager/save/delta_audit.h"
#include "manager/save/rank_names.h"
#include "manager/save/replica_audit.h"
#include "manager/state/micros_since.h"
#include "manager/state/model_sharding.h"
#include "manager/state/poll_cancelled.h"
#include "manager/state/reader_options.h"
#include "manager/state/registered_state.h"
#include "manager/state/replicated_tensors.h"
#include "manager/state/value_types.h"
#include "schema/bytes/annotate.h"
#include "schema/records/staged.h"
#include "schema/status.h"

namespace ckptdb::internal {
namespace {

SaveRequest WithKind(SaveRequest request, SavePolicy::Kind kind) {
  request.kind = kind;
  return request;
}

}  // namespace

SaveOperation::SaveOperation(const SaveEnvironment& environment,
                             const SaveLineage& lineage, SaveStart start)
    : environment_(environment),
      announced_(std::move(start.announced)),
      ticket_(std::move(start.ticket)),
      request_(WithKind(std::move(start.request), announced_.decision.kind)),
      answers_preemption_(start.answers_preemption),
      begun_at_micros_(start.begun_at_micros),
      called_at_(start.called_at),
      begin_(start.called_at +
             std::chrono::microseconds(start.wait_micros.value_or(0))),
      parent_(lineage.parent()),
      abandoned_(lineage.leaving()),
      source_(lineage.source()),
      pending_(std::make_shared<PendingSave::State>(
          announced_.step, environment.options.observers.cancelled,
          environment.shipping)) {
  report_.step = announced_.step;
  report_.save_kind = announced_.decision.kind;
  report_.reason = announced_.decision.reason;
  report_.metrics = request_.metrics;
  report_.wait_micros = start.wait_micros.value_or(0);
  report_.planning_micros = start.planning_micros;
}

StepInfo SaveOperation::step_info() const {
  return {announced_.step, begun_at_micros_,
          request_.kind == SavePolicy::Kind::kEphemeral, request_.metrics};
}

void SaveOperation::Capture(const SaveLineage& lineage) {
  part_.status = begun() ? CaptureModel(lineage) : announced_.begin_error;
  // A model that was not copied completely is read by StageModel, and the
  // training waits for that.
  if (copied_ || !part_.status.ok()) LetTrainingContinue();
}

absl::Status SaveOperation::CaptureModel(const SaveLineage& lineage) {
  // Takes the marks before copying the values: a row that is marked later is in
  // the next save, too, and none is missed.
  absl::Status taken;
  if (environment_.feed != nullptr) {
    absl::StatusOr<ChangeSets> sets = CallGuarded(
        "taking the changed rows", [&] { return environment_.feed->Take(); });
    taken = sets.status();
    if (sets.ok()) changes_ = *std::move(sets);
  }
  const absl::Status provided = CallGuarded("the model's provider", [&] {
    return environment_.model.Provide(nullptr);
  });
  CKPTDB_RETURN_IF_ERROR(
      CheckTables(environment_.model, environment_.shardings));
  // All ranks get to these, even after a failure: to the audit, the reasons and
  // the exchange.
  if (environment_.options.save.audit_replicas) {
    CKPTDB_RETURN_IF_ERROR(AuditReplicas(
        environment_.model, environment_.shardings, environment_.ranks,
        announced_.version.attempt, environment_.options.ranks.deadline));
  }
  absl::Status own = taken;
  own.Update(provided);
  CKPTDB_ASSIGN_OR_RETURN(BaseReasons bases, ChooseBases(lineage, &own));
  if (own.ok()) {
    own =
        CallGuarded("auditing the changes", [&] { return AuditDeltas(bases); });
  }
  CKPTDB_ASSIGN_OR_RETURN(
      whole_tables_, CallGuarded("exchanging columns", [&] {
        return ExchangeColumns(
            {environment_.model, environment_.shardings,
             environment_.feed != nullptr ? &changes_ : nullptr, bases,
             environment_.ranks, announced_.version.attempt,
             environment_.options.ranks.deadline},
            own);
      }));
  return CallGuarded("copying the model",
                     [&] { return TakeSnapshot(std::move(bases)); });
}

absl::StatusOr<BaseReasons> SaveOperation::ChooseBases(
    const SaveLineage& lineage, absl::Status* own) {
  if (environment_.feed == nullptr) return BaseReasons();
  const BaseInputs inputs = {environment_.model,
                             environment_.shardings,
                             changes_,
                             ticket_,
                             lineage.differing_tables(),
                             /*has_parent=*/!announced_.whole,
                             announced_.base_reason};
  return AgreeOnBases(inputs, environment_.ranks, announced_.version.attempt,
                      environment_.options.ranks.deadline, own);
}

// Audits the tables that are saved as changes, each rank its own rows.
absl::Status SaveOperation::AuditDeltas(const BaseReasons& bases) const {
  const ManagerOptions& options = environment_.options;
  if (!options.save.audit_deltas || environment_.feed == nullptr ||
      announced_.whole) {
    return absl::OkStatus();
  }
  const int64_t parent_step = announced_.parent.step;
  std::unique_ptr<Reader> reader;  // outlives `parent`
  std::unique_ptr<StepReader> parent;
  if (environment_.is_owner()) {
    // The owner has the database open and needs no reader; the other ranks read
    // concurrently.
    CKPTDB_ASSIGN_OR_RETURN(parent, environment_.store->OpenStep(parent_step));
  } else {
    CKPTDB_ASSIGN_OR_RETURN(
        reader, Reader::Open(options.path, ReaderOptionsOf(options)));
    CKPTDB_ASSIGN_OR_RETURN(parent, reader->OpenStep(parent_step));
  }
  for (size_t t = 0; t < changes_.size(); ++t) {
    const RegisteredTable& table = environment_.model.tables()[t];
    const TableSharding& sharding = environment_.shardings[t];
    if (!changes_[t].has_value() || bases.contains(table.name)) continue;
    if (table.state->columns().has_value()) continue;
    // Only the owner's rows and marks of a replicated table are saved.
    const bool replicated = sharding.kind() == Item::Sharding::kReplicated;
    if (replicated && !environment_.is_owner()) continue;
    CKPTDB_RETURN_IF_ERROR(AuditTable(
        *parent, table, sharding, *changes_[t], environment_.ranks->rank(),
        environment_.ranks->world_size(), options.restore.read));
  }
  return absl::OkStatus();
}

absl::Status SaveOperation::TakeSnapshot(BaseReasons bases) {
  SnapshotSpec spec;
  spec.owner = environment_.is_owner();
  spec.bases = std::move(bases);
  spec.shardings = environment_.shardings;
  spec.rank = environment_.ranks->rank();
  if (environment_.ranks->world_size() > 1) {
    names_ =
        NamesOfSave(environment_.model, environment_.options.ranks, request_);
  }
  CKPTDB_ASSIGN_OR_RETURN(
      spec.tensor_savers,
      AssignSavers(environment_.model,
                   environment_.options.ranks.replicated_saver,
                   environment_.ranks->world_size()));
  if (environment_.feed != nullptr) spec.changes = &changes_;
  spec.whole_tables = &whole_tables_;
  CKPTDB_ASSIGN_OR_RETURN(snapshot_, Snapshot::Of(environment_.model, spec));
  value_types_ = EncodeValueTypes(environment_.model);
  Arena* const arena = environment_.arena;
  // Without async the training waits for the whole save, so a copy would only
  // cost time.
  if (environment_.options.save.async &&
      snapshot_->bytes() <= arena->max_bytes()) {
    report_.copied_bytes = snapshot_->bytes();
    copied_ = true;
    return snapshot_->CopyTo(arena, environment_.options.save.copy_threads,
                             [this] { return PollWhileCopying(); });
  }
  return CaptureDeviceTensors();
}

// With several ranks one rank alone must not leave a call of all.
absl::Status SaveOperation::PollWhileCopying() {
  if (environment_.ranks->world_size() > 1) return absl::OkStatus();
  interrupted_ = PollCancelled(environment_.options.observers.cancelled,
                               absl::StrCat("step ", step(), " to be copied"));
  return interrupted_;
}

// Device tensors are always copied, as only the device can read them.
absl::Status SaveOperation::CaptureDeviceTensors() {
  const uint64_t bytes = snapshot_->device_bytes();
  if (bytes == 0) return absl::OkStatus();
  Arena* const arena = environment_.arena;
  if (bytes > arena->max_bytes()) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "device tensors take ", bytes,
        " bytes of host memory, but ManagerOptions::save.arena_bytes is ",
        arena->max_bytes(), "; raise it to at least ", bytes));
  }
  return snapshot_->CaptureDeviceTensors(
      arena, environment_.options.save.async ? arena->max_bytes() : bytes);
}

// The first call wakes the training thread; later calls do nothing.
void SaveOperation::LetTrainingContinue() {
  if (std::exchange(model_read_, true)) return;
  report_.blocking_micros = MicrosSince(called_at_);
  pending_->SetStaged(part_.status);
}

void SaveOperation::Run() {
  const absl::Status saved =
      begun() ? CallGuarded("saving", [&] { StageAndCommit(); })
              : announced_.begin_error;
  // An exception also ends the save, unless the owner has already announced how
  // it ended. Wakes the training thread in each case, as it may wait until the
  // model was read.
  if (!saved.ok() && outcome_.status.ok()) outcome_.status = saved;
  if (part_.status.ok()) part_.status = saved;
  LetTrainingContinue();
  CompleteReport();
}

void SaveOperation::StageAndCommit() {
  StagePart();
  LetTrainingContinue();
  // A single rank publishes its staged part without encoding it.
  if (environment_.ranks->world_size() > 1) return CommitWithAll();
  BeginCommit();
  outcome_ = Publish({""});
}

// From here on it is too late to cancel the save.
void SaveOperation::BeginCommit() {
  if (part_.status.ok() && !pending_->BeginCommit()) {
    part_.status = CancelledStatus();
  }
}

absl::Status SaveOperation::CancelledStatus() const {
  return absl::CancelledError(
      absl::StrCat("the save of step ", step(), " was cancelled"));
}

void SaveOperation::StagePart() {
  if (part_.status.ok() && !pending_->cancelled()) {
    absl::StatusOr<StagedRank> staged =
        CallGuarded("staging", [&] { return StageModel(); });
    part_.status = staged.status();
    if (staged.ok()) part_.staged = *std::move(staged);
    report_.stage_micros = MicrosSince(begin_);
  }
  // Staging that was cancelled reports it without the step.
  if (pending_->cancelled() &&
      (part_.status.ok() || absl::IsCancelled(part_.status))) {
    part_.status = CancelledStatus();
  }
}

// Device tensors, with their alignment, occupy the beginning of the arena.
void SaveOperation::ReserveCopies(StageCopies* copies) const {
  Arena* const arena = environment_.arena;
  const uint64_t taken = snapshot_->device_bytes();
  if (taken == 0) {
    copies->memory = arena->Reserve(arena->max_bytes());
    if (copies->memory != nullptr) copies->bytes = arena->max_bytes();
    return;
  }
  copies->memory = snapshot_->free_memory();
  copies->bytes = arena->max_bytes() - taken;
}

// Stages the model. Unless everything was copied, copies as much as fits in
// memory, and reads the rest while the training waits.
absl::StatusOr<StagedRank> SaveOperation::StageModel() {
  const ManagerOptions& options = environment_.options;
  CKPTDB_RETURN_IF_ERROR(ticket_.status());
  CKPTDB_RETURN_IF_ERROR(snapshot_->Fetch());
  internal::StageCopies copies;
  copies.cancelled = [this] { return pending_->cancelled(); };
  if (!copied_) {
    if (options.save.async) ReserveCopies(&copies);
    copies.on_read = [this](uint64_t copied_bytes) {
      report_.copied_bytes = copied_bytes;
      LetTrainingContinue();
    };
  }
  return internal::StageWithCopies(options.path, *ticket_, snapshot_->state(),
                                   options.store, copies);
}

void SaveOperation::CommitWithAll() {
  Coordinator* const ranks = environment_.background_ranks;
  const absl::Duration deadline = environment_.options.ranks.deadline;
  const std::string tag = absl::StrCat("attempt ", announced_.version.attempt);
  std::string own_part;  // the owner's is not sent
  if (!environment_.is_owner()) {
    BeginCommit();
    MessageWriter(&own_part).Put(names_);
    own_part += Encode(SavePart{part_.status, std::move(part_.staged)});
  }
  const auto parts = ranks->Gather(tag, std::move(own_part), deadline);
  Outcome own;
  own.status = parts.status();
  if (environment_.is_owner()) {
    if (parts.ok()) {
      BeginCommit();
      own = Publish(*parts);
    } else {
      environment_.publisher->Abandon(announced_.version);
    }
  }
  // Tell rather than Broadcast: if a rank dies after staging, the others must
  // not believe that a committed step has failed.
  const absl::StatusOr<std::string> all =
      ranks->Tell(tag, Encode(own), AfterGather(*ranks, deadline));
  outcome_ = std::move(own);
  // The owner's commit counts, no matter which ranks learn of it.
  if (environment_.is_owner()) return;
  outcome_.status = all.status();
  if (all.ok()) outcome_.status.Update(Decode(*all, &outcome_));
}

Outcome SaveOperation::Publish(const std::vector<std::string>& parts) {
  SavePublisher::Publication publication = {
      announced_, request_, value_types_, {}};
  publication.commit.saved = step_info();
  publication.commit.parent = parent_;
  if (environment_.options.restore.abandoned == SaveSpec::Abandoned::kRemove) {
    publication.commit.abandoned = abandoned_;
  }
  publication.commit.source = source_;
  return environment_.publisher->Publish(
      std::move(publication), CollectParts(parts), &report_.planning_micros);
}

// Returns the owner's own part and those received from the other ranks, or the
// error of the lowest rank that has one.
absl::StatusOr<std::vector<StagedRank>> SaveOperation::CollectParts(
    const std::vector<std::string>& parts) {
  std::vector<StagedRank> staged;
  for (size_t rank = 0; rank < parts.size(); ++rank) {
    SavePart part;
    RankNames names = names_;
    if (rank == kOwnerRank) {
      part = {part_.status, std::move(part_.staged)};
    } else {
      MessageReader reader(parts[rank]);
      if (!reader.Get(&names)) return CannotDecode(parts[rank].size());
      CKPTDB_RETURN_IF_ERROR(Decode(reader.rest(), &part));
    }
    // With a single rank the error does not name it.
    if (!part.status.ok() && parts.size() > 1) {
      return Annotate(part.status, absl::StrCat("rank ", rank));
    }
    CKPTDB_RETURN_IF_ERROR(part.status);
    CKPTDB_RETURN_IF_ERROR(CompareNames(names_, rank, names));
    staged.push_back(std::move(part.staged));
  }
  return staged;
}

void SaveOperation::CompleteReport() {
  report_.status = outcome_.status;
  report_.result = outcome_.result;
  report_.retired_steps = outcome_.retired;
  report_.total_micros = MicrosSince(begin_);
  if (!environment_.options.save.async) {
    report_.blocking_micros = report_.wait_micros + report_.total_micros;
  }
}

}  // namespace ckptdb::internal
