// SPDX-License-Identifier: Apache-2.0
#include "train_ctr/replica.h"

#include <ckptdb/schema/status.h>

#include <atomic>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"

namespace train_ctr {
namespace {

absl::StatusOr<ElementType> TypeOf(ckptdb::DType dtype,
                                   const std::string& name) {
  if (dtype == ckptdb::DType::kF32) return ElementType::kFloat32;
  if (dtype == ckptdb::DType::kI64) return ElementType::kInt64;
  return absl::DataLossError(absl::StrCat("tensor \"", name, "\" of ",
                                          ckptdb::DTypeName(dtype),
                                          " is not one of a trainer"));
}

std::vector<std::string> NamesOf(const std::vector<ckptdb::Slot>& slots) {
  std::vector<std::string> names;
  for (const ckptdb::Slot& slot : slots) names.push_back(slot.name);
  return names;
}

// The items of a step. With several ranks a table is on all of them, and a
// tensor on one.
std::vector<ckptdb::Item> ItemsOf(const ckptdb::StepReader& step) {
  std::vector<ckptdb::Item> items;
  std::set<std::string> names;
  for (const ckptdb::StepRecord::Rank& rank : step.ranks()) {
    for (const ckptdb::Item& item : rank.items) {
      if (names.insert(item.name).second) items.push_back(item);
    }
  }
  return items;
}

// Returns DataLoss if the step's table does not have the slots of this one.
absl::Status CheckColumns(const ckptdb::StepReader& step,
                          const EmbeddingTable& table) {
  CKPTDB_ASSIGN_OR_RETURN(const ckptdb::StepReader::TableSpec spec,
                          step.FindTable(table.name()));
  if (SameSlots(spec.slots, table.state()->slots())) return absl::OkStatus();
  return absl::DataLossError(
      absl::StrCat("the step's table \"", table.name(),
                   "\" has not the slots of the trainer's"));
}

// Makes the table the step's. `rows` puts all its slots into it.
absl::Status RestoreTable(const ckptdb::StepReader& step,
                          const EmbeddingTable& table,
                          ckptdb::LiveTable* rows) {
  CKPTDB_RETURN_IF_ERROR(CheckColumns(step, table));
  CKPTDB_RETURN_IF_ERROR(step.RestoreTable(
      table.name(), ckptdb::LiveTable::RestoreMode::kClear, {}, rows));
  CKPTDB_ASSIGN_OR_RETURN(const ckptdb::StepReader::TableSpec spec,
                          step.FindTable(table.name()));
  // For a delta step only the maximum number of rows is known.
  if (spec.exact ? table.rows() == spec.rows : table.rows() <= spec.rows) {
    return absl::OkStatus();
  }
  return absl::DataLossError(absl::StrCat("table \"", table.name(), "\" has ",
                                          table.rows(), " rows, not ",
                                          spec.rows));
}

// Counts the rows and ids that it passes on to a table.
class CountedRows : public ckptdb::LiveTable {
 public:
  // A table that CheckColumns has passed, or will before the first row.
  explicit CountedRows(const EmbeddingTable& table)
      : live_(table.state()->Live(NamesOf(table.state()->slots()))) {}

  absl::Status Clear() override { return live_->Clear(); }
  absl::Status Consume(int worker,
                       const ckptdb::RowSink::Batch& batch) override {
    upserted_ += batch.ids.size();
    return live_->Consume(worker, batch);
  }
  absl::Status Erase(int worker, absl::Span<const int64_t> ids) override {
    erased_ += ids.size();
    return live_->Erase(worker, ids);
  }
  uint64_t upserted() const { return upserted_; }
  uint64_t erased() const { return erased_; }

 private:
  ckptdb::LiveTable* const live_;
  std::atomic<uint64_t> upserted_ = 0;
  std::atomic<uint64_t> erased_ = 0;
};

}  // namespace

absl::StatusOr<ReplicaChange> Replica::Restore(const ckptdb::StepReader& step) {
  tables_.clear();
  tensors_.clear();
  ReplicaChange done;
  for (const ckptdb::Item& item : ItemsOf(step)) {
    CKPTDB_RETURN_IF_ERROR(item.kind == ckptdb::Item::Kind::kRows
                               ? RestoreRows(step, item.name, &done)
                               : ReadItem(step, item.kind, item.name, &done));
  }
  return done;
}

absl::StatusOr<ReplicaChange> Replica::Follow(
    const ckptdb::ChangeReader& changes) {
  ReplicaChange done;
  for (const ckptdb::Item& item : ItemsOf(changes.to())) {
    if (item.kind != ckptdb::Item::Kind::kRows) continue;
    CKPTDB_RETURN_IF_ERROR(FollowRows(changes, item.name, &done));
  }
  for (const ckptdb::ChangeReader::ItemName& item : changes.ChangedItems()) {
    CKPTDB_RETURN_IF_ERROR(ReadItem(changes.to(), item.kind, item.name, &done));
  }
  return done;
}

absl::StatusOr<EmbeddingTable*> Replica::FindOrAddTable(
    const ckptdb::StepReader& step, const std::string& name) {
  const auto found = tables_.find(name);
  if (found != tables_.end()) return &found->second;
  CKPTDB_ASSIGN_OR_RETURN(const ckptdb::StepReader::TableSpec spec,
                          step.FindTable(name));
  EmbeddingTableOptions options;
  options.name = name;
  options.dim = spec.slots.front().elements;
  return &tables_.emplace(name, EmbeddingTable(options)).first->second;
}

absl::Status Replica::RestoreRows(const ckptdb::StepReader& step,
                                  const std::string& name,
                                  ReplicaChange* done) {
  CKPTDB_ASSIGN_OR_RETURN(EmbeddingTable* const table,
                          FindOrAddTable(step, name));
  CountedRows rows(*table);
  CKPTDB_RETURN_IF_ERROR(RestoreTable(step, *table, &rows));
  done->rows_upserted += rows.upserted();
  done->whole_tables.push_back(name);
  return absl::OkStatus();
}

absl::Status Replica::FollowRows(const ckptdb::ChangeReader& changes,
                                 const std::string& name, ReplicaChange* done) {
  CKPTDB_ASSIGN_OR_RETURN(EmbeddingTable* const table,
                          FindOrAddTable(changes.to(), name));
  CKPTDB_RETURN_IF_ERROR(CheckColumns(changes.to(), *table));
  CountedRows rows(*table);
  const absl::Status scanned = changes.ScanTable(name, {}, &rows);
  if (absl::IsFailedPrecondition(scanned)) {
    return RestoreRows(changes.to(), name, done);
  }
  CKPTDB_RETURN_IF_ERROR(scanned);
  done->rows_upserted += rows.upserted();
  done->rows_erased += rows.erased();
  return absl::OkStatus();
}

absl::Status Replica::ReadItem(const ckptdb::StepReader& step,
                               ckptdb::Item::Kind kind, const std::string& name,
                               ReplicaChange* done) {
  if (kind == ckptdb::Item::Kind::kTensor) {
    ++done->tensors;
    return ReadTensor(step, name);
  }
  if (name != ckptdb::ExtraBlob(kProgress)) {
    return absl::DataLossError(
        absl::StrCat("blob \"", name, "\" is not one of a trainer"));
  }
  CKPTDB_ASSIGN_OR_RETURN(progress_, step.ReadBlob(0, name));
  return absl::OkStatus();
}

absl::Status Replica::ReadTensor(const ckptdb::StepReader& step,
                                 const std::string& name) {
  CKPTDB_ASSIGN_OR_RETURN(const ckptdb::StepReader::TensorSpec spec,
                          step.FindTensor(name));
  Tensor& tensor = tensors_[name];
  CKPTDB_ASSIGN_OR_RETURN(tensor.type, TypeOf(spec.dtype, name));
  tensor.shape = spec.shape;
  tensor.values.resize(spec.raw_bytes);
  return step.ReadTensor(name, tensor.values.data(), tensor.values.size());
}

size_t Replica::rows() const {
  size_t rows = 0;
  for (const auto& [name, table] : tables_) rows += table.rows();
  return rows;
}

StateView Replica::state() {
  StateView state;
  for (const auto& [name, table] : tables_) state.tables.push_back(&table);
  for (auto& [name, tensor] : tensors_) {
    state.tensors.push_back(
        {name, tensor.type, tensor.shape, tensor.values.data()});
  }
  state.progress = progress_;
  return state;
}

}  // namespace train_ctr
