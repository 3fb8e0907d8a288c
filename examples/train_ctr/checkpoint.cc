#include "train_ctr/checkpoint.h"

#include <ckptdb/schema/status.h>

#include <chrono>
#include <vector>

#include "absl/strings/str_cat.h"
#include "train_ctr/table_rows.h"

namespace train_ctr {
namespace {

constexpr char kProgressBlob[] = "progress";

ckptdb::DType DTypeOf(const TensorView& tensor) {
  return tensor.type == ElementType::kFloat32 ? ckptdb::DType::kF32
                                              : ckptdb::DType::kI64;
}

absl::Status UnlikeTrainer(absl::string_view kind, absl::string_view name) {
  return absl::DataLossError(
      absl::StrCat("the step's ", kind, " \"", name,
                   "\" has not the type and shape of the trainer's"));
}

absl::Status RestoreTensor(const ckptdb::StepReader& step,
                           const TensorView& tensor) {
  CKPTDB_ASSIGN_OR_RETURN(const ckptdb::TensorSpec spec,
                          step.FindTensor(tensor.name));
  if (spec.dtype != DTypeOf(tensor) || spec.shape != tensor.shape) {
    return UnlikeTrainer("tensor", tensor.name);
  }
  return step.ReadTensor(tensor.name, tensor.values, tensor.bytes());
}

bool SameColumns(const std::vector<ckptdb::Slot>& a,
                 const std::vector<ckptdb::Slot>& b) {
  if (a.size() != b.size()) return false;
  for (size_t s = 0; s < a.size(); ++s) {
    if (a[s].name != b[s].name || a[s].dtype != b[s].dtype ||
        a[s].elements != b[s].elements) {
      return false;
    }
  }
  return true;
}

absl::Status RestoreTable(const ckptdb::StepReader& step,
                          EmbeddingTable* table) {
  CKPTDB_ASSIGN_OR_RETURN(const ckptdb::TableSpec spec,
                          step.FindTable(table->name()));
  if (!SameColumns(spec.slots, TableSlots(table->dim()))) {
    return UnlikeTrainer("table", table->name());
  }
  table->Clear();
  TableRowSink sink(table);
  CKPTDB_RETURN_IF_ERROR(step.ScanTable(table->name(), {}, &sink));
  if (table->rows() == spec.rows) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat("table \"", table->name(), "\" has ",
                                          table->rows(), " rows, not ",
                                          spec.rows));
}

double Milliseconds(std::chrono::steady_clock::duration duration) {
  return std::chrono::duration<double, std::milli>(duration).count();
}

}  // namespace

absl::StatusOr<std::unique_ptr<Checkpoints>> Checkpoints::Open(
    const CheckpointOptions& options) {
  ckptdb::StoreOptions store_options;
  store_options.background_sweep = !options.crash_drill->at_point();
  store_options.on_point = [drill =
                                options.crash_drill](absl::string_view point) {
    drill->Passed(point);
  };
  CKPTDB_ASSIGN_OR_RETURN(std::unique_ptr<ckptdb::Store> store,
                          ckptdb::Store::Open(options.store, store_options));
  return std::unique_ptr<Checkpoints>(
      new Checkpoints(options, std::move(store)));
}

absl::StatusOr<std::optional<int64_t>> Checkpoints::Latest() const {
  const absl::StatusOr<ckptdb::StepRecord> latest = store_->Latest();
  if (absl::IsNotFound(latest.status())) return std::nullopt;
  CKPTDB_RETURN_IF_ERROR(latest.status());
  return latest->version.step;
}

absl::Status Checkpoints::Restore(int64_t step, Trainer* trainer) const {
  CKPTDB_ASSIGN_OR_RETURN(const std::unique_ptr<ckptdb::StepReader> reader,
                          store_->OpenStep(step));
  CKPTDB_ASSIGN_OR_RETURN(const std::string progress,
                          reader->ReadBlob(0, kProgressBlob));
  CKPTDB_RETURN_IF_ERROR(trainer->RestoreProgress(progress));
  for (const TensorView& tensor : trainer->tensors()) {
    CKPTDB_RETURN_IF_ERROR(RestoreTensor(*reader, tensor));
  }
  for (EmbeddingTable& table : trainer->tables()) {
    CKPTDB_RETURN_IF_ERROR(RestoreTable(*reader, &table));
  }
  return absl::OkStatus();
}

// A quarantined step is there, but was not resumed from: it is trained again.
ckptdb::SaveSpec Checkpoints::SpecOf(int64_t step) const {
  const absl::StatusOr<ckptdb::StepRecord> existing = store_->FindStep(step);
  ckptdb::SaveSpec spec;
  spec.step = step;
  spec.overwrite = existing.ok() && existing->quarantined;
  return spec;
}

std::vector<int64_t> Checkpoints::StepsToRetire(int64_t step) const {
  std::vector<int64_t> older;
  for (const ckptdb::StepRecord& record : store_->Steps()) {
    if (record.version.step < step && !record.pinned && !record.quarantined) {
      older.push_back(record.version.step);
    }
  }
  const auto kept = static_cast<size_t>(options_.keep_steps - 1);
  older.resize(older.size() > kept ? older.size() - kept : 0);
  return older;
}

absl::StatusOr<ckptdb::SaveResult> Checkpoints::SaveState(double train_loss,
                                                          Trainer* trainer) {
  ckptdb::RankState state;
  for (const TensorView& tensor : trainer->tensors()) {
    state.AddTensor(tensor.name,
                    {DTypeOf(tensor), tensor.shape, tensor.values, {}, {}});
  }
  std::vector<std::unique_ptr<TableRowSource>> sources;
  for (const EmbeddingTable& table : trainer->tables()) {
    sources.push_back(std::make_unique<TableRowSource>(table));
    state.AddTable(table.name(), TableSlots(table.dim()), sources.back().get());
  }
  const std::string progress = trainer->progress();
  state.AddBlob(kProgressBlob, progress);

  ckptdb::PublishSpec publish;
  publish.metrics = {{"train_loss", train_loss}};
  publish.user_metadata = {{"trainer", "train_ctr"},
                           {"options", trainer->identity()}};
  publish.retire = StepsToRetire(trainer->step());
  ckptdb::StageOptions stage;
  stage.on_point = [drill = options_.crash_drill](absl::string_view point) {
    drill->Passed(point);
  };
  return store_->Save(SpecOf(trainer->step()), state, publish, stage);
}

absl::StatusOr<SaveReport> Checkpoints::Save(double train_loss,
                                             Trainer* trainer) {
  options_.crash_drill->Arm(trainer->step());
  const auto begin = std::chrono::steady_clock::now();
  CKPTDB_ASSIGN_OR_RETURN(const ckptdb::SaveResult result,
                          SaveState(train_loss, trainer));
  const auto end = std::chrono::steady_clock::now();
  if (options_.crash_drill->at_point()) {
    CKPTDB_RETURN_IF_ERROR(store_->Sweep().status());
  }
  CKPTDB_RETURN_IF_ERROR(options_.crash_drill->Disarm());
  CKPTDB_ASSIGN_OR_RETURN(const ckptdb::StepRecord record,
                          store_->FindStep(trainer->step()));
  const absl::string_view kind = ckptdb::StepKindName(record.kind);
  return SaveReport{trainer->step(), std::string(kind), result.stored_bytes,
                    Milliseconds(end - begin),
                    static_cast<double>(result.commit_micros) / 1000};
}

}  // namespace train_ctr
