#include "train_ctr/checkpoint.h"

#include <ckptdb/schema/status.h>

#include <chrono>
#include <deque>

#include "absl/strings/str_cat.h"
#include "train_ctr/restore.h"
#include "train_ctr/table_rows.h"

namespace train_ctr {
namespace {

double Milliseconds(std::chrono::steady_clock::duration duration) {
  return std::chrono::duration<double, std::milli>(duration).count();
}

// What tells the age of a state: folding a step gives it another version.
uint32_t SavedAs(const ckptdb::StepRecord& step) {
  return step.has_increment ? step.increment.attempt : step.version.attempt;
}

bool IsAfter(const ckptdb::StepRecord& a, const ckptdb::StepRecord& b) {
  return a.version.step > b.version.step || SavedAs(a) > SavedAs(b);
}

// What staging reads of a table: all rows, and with `delta` those that changed.
struct TableSources {
  TableRowSource rows;
  std::optional<TableRowSource> upserted;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Checkpoints>> Checkpoints::Open(
    const CheckpointOptions& options, Trainer* trainer) {
  ckptdb::StoreOptions store_options;
  store_options.background_sweep = !options.crash_drill->at_point();
  store_options.on_point = [drill =
                                options.crash_drill](absl::string_view point) {
    drill->Passed(point);
  };
  CKPTDB_ASSIGN_OR_RETURN(std::unique_ptr<ckptdb::Store> store,
                          ckptdb::Store::Open(options.store, store_options));
  std::unique_ptr<Checkpoints> checkpoints(
      new Checkpoints(options, std::move(store), trainer));
  if (options.delta) CKPTDB_RETURN_IF_ERROR(checkpoints->AddConsumers());
  return checkpoints;
}

absl::Status Checkpoints::AddConsumers() {
  for (size_t t = 0; t < trainer_->tables().size(); ++t) {
    CKPTDB_ASSIGN_OR_RETURN(const ckptdb::ConsumerId consumer,
                            trainer_->tracker(t).AddConsumer("checkpoint"));
    consumers_.push_back(consumer);
  }
  return absl::OkStatus();
}

absl::StatusOr<std::optional<int64_t>> Checkpoints::Latest() const {
  const absl::StatusOr<ckptdb::StepRecord> latest = store_->Latest();
  if (absl::IsNotFound(latest.status())) return std::nullopt;
  CKPTDB_RETURN_IF_ERROR(latest.status());
  return latest->version.step;
}

absl::Status Checkpoints::Restore(int64_t step) {
  CKPTDB_ASSIGN_OR_RETURN(const std::unique_ptr<ckptdb::StepReader> reader,
                          store_->OpenStep(step));
  if (reader->record().quarantined) {
    return absl::FailedPreconditionError(
        absl::StrCat("step ", step, " of store ", options_.store,
                     " is quarantined: no save can go on from it"));
  }
  CKPTDB_RETURN_IF_ERROR(RestoreState(*reader));
  return GoOnFrom(reader->record());
}

absl::Status Checkpoints::RestoreState(const ckptdb::StepReader& step) {
  CKPTDB_ASSIGN_OR_RETURN(const std::string progress,
                          step.ReadBlob(0, kProgressBlob));
  CKPTDB_RETURN_IF_ERROR(trainer_->RestoreProgress(progress));
  for (const TensorView& tensor : trainer_->tensors()) {
    CKPTDB_RETURN_IF_ERROR(RestoreTensor(step, tensor));
  }
  for (EmbeddingTable& table : trainer_->tables()) {
    LiveRows rows(&table);
    CKPTDB_RETURN_IF_ERROR(RestoreTable(step, table, &rows));
  }
  return absl::OkStatus();
}

absl::Status Checkpoints::GoOnFrom(const ckptdb::StepRecord& step) {
  parent_ = step.version;
  deltas_ = step.chain.size() - 1;
  for (const ckptdb::StepRecord& other : store_->Steps()) {
    if (!other.quarantined && IsAfter(other, step)) {
      abandoned_steps_.insert(other.version.step);
    }
  }
  // A new consumer's first set is not complete, as it has not seen what
  // happened before. All of that is in the step: the set may go, and the next
  // one has what changes from here on.
  return TakeChanges().status();
}

absl::StatusOr<Checkpoints::Changes> Checkpoints::TakeChanges() {
  Changes changes;
  for (size_t t = 0; t < consumers_.size(); ++t) {
    CKPTDB_ASSIGN_OR_RETURN(ckptdb::RowChanges set,
                            trainer_->tracker(t).Take(consumers_[t]));
    changes.push_back(std::move(set));
  }
  return changes;
}

absl::Status Checkpoints::ReturnChanges(Changes changes) {
  for (size_t t = 0; t < changes.size(); ++t) {
    CKPTDB_RETURN_IF_ERROR(
        trainer_->tracker(t).Return(consumers_[t], std::move(changes[t])));
  }
  return absl::OkStatus();
}

// A quarantined step is there, but was not resumed from: it is trained again.
// So is one of those given up.
ckptdb::SaveSpec Checkpoints::NextSpec() const {
  ckptdb::SaveSpec spec;
  spec.step = trainer_->step();
  spec.parent = parent_;
  const absl::StatusOr<ckptdb::StepRecord> existing =
      store_->FindStep(spec.step);
  spec.overwrite = existing.ok() && (existing->quarantined ||
                                     abandoned_steps_.contains(spec.step));
  if (!abandoned_steps_.empty()) spec.abandoned = options_.abandoned;
  return spec;
}

ckptdb::PublishSpec Checkpoints::NextPublish(double train_loss) const {
  ckptdb::PublishSpec publish;
  publish.metrics = {{"train_loss", train_loss}};
  publish.user_metadata = {{"trainer", "train_ctr"},
                           {"options", trainer_->identity()}};
  publish.retire = StepsToRetire(trainer_->step());
  return publish;
}

std::vector<int64_t> Checkpoints::StepsToRetire(int64_t step) const {
  const bool removes = options_.abandoned == ckptdb::AbandonedBranch::kRemove;
  std::vector<int64_t> older;
  for (const ckptdb::StepRecord& record : store_->Steps()) {
    // The save removes it by itself.
    if (removes && abandoned_steps_.contains(record.version.step)) continue;
    if (record.version.step < step && !record.pinned && !record.quarantined) {
      older.push_back(record.version.step);
    }
  }
  const auto kept = static_cast<size_t>(options_.keep_steps - 1);
  older.resize(older.size() > kept ? older.size() - kept : 0);
  return older;
}

std::string Checkpoints::BaseReason() const {
  if (!base_due_.empty()) return base_due_;
  const auto base_every = static_cast<uint64_t>(options_.base_every);
  if (!parent_ || base_every == 0 || deltas_ + 1 < base_every) return "";
  return absl::StrCat("every ", base_every, " saves one is whole");
}

absl::StatusOr<ckptdb::SaveResult> Checkpoints::SaveState(
    double train_loss, const Changes& changes) {
  ckptdb::RankState state;
  for (const TensorView& tensor : trainer_->tensors()) {
    state.AddTensor(
        tensor.name,
        {DTypeOf(tensor.type), tensor.shape, tensor.values, {}, {}});
  }
  std::deque<TableSources> all_sources;  // where they are pointed to
  for (size_t t = 0; t < trainer_->tables().size(); ++t) {
    const EmbeddingTable& table = trainer_->tables()[t];
    TableSources& sources =
        all_sources.emplace_back(TableSources{TableRowSource(table), {}});
    ckptdb::TableItem item;
    item.name = table.name();
    item.slots = TableSlots(table.dim());
    item.rows = &sources.rows;
    if (options_.delta) {
      const ckptdb::RowChanges& changed = changes[t];
      CKPTDB_ASSIGN_OR_RETURN(sources.upserted,
                              TableRowSource::Of(table, changed.upserted));
      item.changes = {&*sources.upserted, changed.erased};
      item.base_reason = changed.complete ? BaseReason() : changed.reason;
    }
    state.AddTable(std::move(item));
  }
  const std::string progress = trainer_->progress();
  state.AddBlob(std::string(kProgressBlob), progress);

  ckptdb::StageOptions stage;
  stage.on_point = [drill = options_.crash_drill](absl::string_view point) {
    drill->Passed(point);
  };
  return store_->Save(NextSpec(), state, NextPublish(train_loss), stage);
}

absl::StatusOr<ckptdb::SaveResult> Checkpoints::SaveOrReturn(
    double train_loss) {
  CKPTDB_ASSIGN_OR_RETURN(Changes changes, TakeChanges());
  absl::StatusOr<ckptdb::SaveResult> result = SaveState(train_loss, changes);
  if (!result.ok()) {
    CKPTDB_RETURN_IF_ERROR(ReturnChanges(std::move(changes)));
    return result;
  }
  parent_ = result->version;
  deltas_ = result->deltas;
  base_due_ = result->base_due;
  if (options_.abandoned == ckptdb::AbandonedBranch::kRemove) {
    abandoned_steps_.clear();
  }
  return result;
}

absl::StatusOr<SaveReport> Checkpoints::Save(double train_loss) {
  options_.crash_drill->Arm(trainer_->step());
  const auto begin = std::chrono::steady_clock::now();
  CKPTDB_ASSIGN_OR_RETURN(const ckptdb::SaveResult result,
                          SaveOrReturn(train_loss));
  const auto end = std::chrono::steady_clock::now();
  if (options_.crash_drill->at_point()) {
    CKPTDB_RETURN_IF_ERROR(store_->Sweep().status());
  }
  CKPTDB_RETURN_IF_ERROR(options_.crash_drill->Disarm());
  SaveReport report;
  report.step = trainer_->step();
  report.kind = std::string(ckptdb::StepKindName(result.kind));
  report.bytes = result.stored_bytes;
  report.blocking_ms = Milliseconds(end - begin);
  report.commit_ms = static_cast<double>(result.commit_micros) / 1000;
  CKPTDB_RETURN_IF_ERROR(CountRows(&report));
  return report;
}

absl::Status Checkpoints::CountRows(SaveReport* report) const {
  CKPTDB_ASSIGN_OR_RETURN(const std::unique_ptr<ckptdb::StepReader> step,
                          store_->OpenStep(report->step));
  for (const ckptdb::Item& item : step->ranks()[0].items) {
    if (item.kind != ckptdb::ItemKind::kRows) continue;
    report->rows_upserted += item.rows;
    report->rows_erased += item.erased;
    if (report->base_reason.empty()) report->base_reason = item.base_reason;
  }
  return absl::OkStatus();
}

}  // namespace train_ctr
