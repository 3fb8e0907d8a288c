// SPDX-License-Identifier: Apache-2.0
#include "tools/not_finite.h"

#include <fnmatch.h>

#include <map>
#include <set>
#include <utility>

#include "schema/status.h"
#include "tools/row_search.h"
#include "tools/tensor_stats.h"

namespace ckptdb::tool {
namespace {

bool IsFloatDType(DType dtype) { return !CanCast(dtype, DType::kI64); }

std::set<std::string> NamesOf(const StepReader& step, Item::Kind kind,
                              const std::string& glob) {
  std::set<std::string> names;
  for (const StepRecord::Rank& rank : step.ranks()) {
    for (const Item& item : rank.items) {
      const bool taken =
          glob.empty() || fnmatch(glob.c_str(), item.name.c_str(), 0) == 0;
      if (item.kind == kind && taken) names.insert(item.name);
    }
  }
  return names;
}

// Returns the tensors of floats among these, without those that the step lacks.
absl::StatusOr<std::vector<TensorPart>> FloatTensors(
    const StepReader& step, const std::set<std::string>& names) {
  std::vector<TensorPart> parts;
  for (const std::string& name : names) {
    auto spec = step.FindTensor(name);
    if (absl::IsNotFound(spec.status())) continue;
    CKPTDB_RETURN_IF_ERROR(spec.status());
    if (!IsFloatDType(spec->dtype)) continue;
    TensorBox box = WholeOf(*spec);
    parts.push_back({*std::move(spec), std::move(box)});
  }
  return parts;
}

// The versions that wrote the shards of a tensor: equal ones prove equal
// elements.
std::vector<Version> WritersOf(const StepReader& step,
                               const std::string& tensor) {
  std::vector<Version> writers;
  for (const StepRecord::Rank& rank : step.ranks()) {
    for (const Item& item : rank.items) {
      const bool of_tensor =
          item.kind == Item::Kind::kTensor && item.name == tensor;
      if (of_tensor) writers.push_back(item.data_version);
    }
  }
  return writers;
}

class NotFiniteSearch {
 public:
  NotFiniteSearch(Reader* reader, const StepReader& step,
                  const NotFiniteOptions& options)
      : reader_(reader),
        step_(step),
        options_(options),
        history_(HistoryOf(reader->Steps(), step.record())) {}

  absl::Status AddTensors(NotFinite* found);
  absl::StatusOr<NotFiniteTable> FindRows(const std::string& table);

 private:
  absl::Status FindTensorOnsets(std::vector<NotFiniteTensor>* tensors);
  absl::Status FindRowOnsets(NotFiniteTable* table);

  Reader* const reader_;
  const StepReader& step_;
  const NotFiniteOptions& options_;
  const std::vector<StepRecord> history_;
};

absl::Status NotFiniteSearch::AddTensors(NotFinite* found) {
  CKPTDB_ASSIGN_OR_RETURN(
      std::vector<TensorPart> parts,
      FloatTensors(step_, NamesOf(step_, Item::Kind::kTensor, options_.glob)));
  CKPTDB_ASSIGN_OR_RETURN(
      const auto stats,
      MeasureTensors(step_, parts, /*bins=*/0, options_.read));
  for (size_t i = 0; i < parts.size(); ++i) {
    if (stats[i].nan + stats[i].inf == 0) continue;
    found->tensors.push_back(
        {std::move(parts[i].spec), stats[i].nan, stats[i].inf, {}});
  }
  found->tensors_read = parts.size();
  return options_.find_onsets ? FindTensorOnsets(&found->tensors)
                              : absl::OkStatus();
}

absl::Status NotFiniteSearch::FindTensorOnsets(
    std::vector<NotFiniteTensor>* tensors) {
  // A tensor with known writers is not read again.
  std::vector<std::map<std::vector<Version>, bool>> known(tensors->size());
  for (size_t i = 0; i < tensors->size(); ++i) {
    known[i][WritersOf(step_, (*tensors)[i].spec.name)] = true;
  }
  const auto test = [&](const StepReader& step,
                        const std::vector<size_t>& subjects)
      -> absl::StatusOr<std::vector<size_t>> {
    std::vector<size_t> holds;
    for (const size_t i : subjects) {
      const std::string& name = (*tensors)[i].spec.name;
      const auto [entry, unknown] =
          known[i].emplace(WritersOf(step, name), false);
      if (unknown) {
        CKPTDB_ASSIGN_OR_RETURN(const auto parts, FloatTensors(step, {name}));
        CKPTDB_ASSIGN_OR_RETURN(
            const auto stats,
            MeasureTensors(step, parts, /*bins=*/0, options_.read));
        entry->second = !stats.empty() && stats[0].nan + stats[0].inf > 0;
      }
      if (entry->second) holds.push_back(i);
    }
    return holds;
  };
  CKPTDB_ASSIGN_OR_RETURN(std::vector<Onset> onsets,
                          FindOnsets(reader_, history_, tensors->size(), test));
  for (size_t i = 0; i < onsets.size(); ++i) {
    (*tensors)[i].onset = std::move(onsets[i]);
  }
  return absl::OkStatus();
}

// Counts the NaN and infinite elements of the rows found.
class NotFiniteCounter : public RowSink {
 public:
  NotFiniteCounter(const std::vector<Slot>& slots,
                   std::vector<NotFiniteRow>* rows)
      : slots_(slots), rows_(rows) {}

  absl::Status Consume(int, const Batch& batch) override {
    for (size_t r = 0; r < batch.ids.size(); ++r) {
      NotFiniteRow& row = rows_->emplace_back();
      row.id = batch.ids[r];
      for (size_t s = 0; s < slots_.size(); ++s) {
        const uint64_t bytes = slots_[s].row_bytes();
        const TensorStats stats =
            CountElements(slots_[s].dtype, batch.slots[s] + r * bytes, bytes);
        row.nan += stats.nan;
        row.inf += stats.inf;
        if (stats.nan + stats.inf > 0) row.slots.push_back(slots_[s].name);
      }
    }
    return absl::OkStatus();
  }

 private:
  const std::vector<Slot>& slots_;
  std::vector<NotFiniteRow>* const rows_;
};

std::vector<int64_t> FoundIds(const FoundRows& found) {
  std::vector<int64_t> ids;
  for (const FoundRow& row : found.rows) ids.push_back(row.id);
  return ids;
}

absl::StatusOr<NotFiniteTable> NotFiniteSearch::FindRows(
    const std::string& table) {
  NotFiniteTable result;
  result.name = table;
  CKPTDB_ASSIGN_OR_RETURN(const auto spec, step_.FindTable(table));
  std::vector<Slot> slots;
  for (const Slot& slot : spec.slots) {
    if (IsFloatDType(slot.dtype)) slots.push_back(slot);
  }
  if (slots.empty()) return result;
  CKPTDB_ASSIGN_OR_RETURN(
      const FoundRows found,
      SearchRows(step_,
                 {.table = table, .not_finite = true, .limit = options_.limit},
                 options_.read));
  result.not_finite_rows = found.matched_rows;
  result.read_rows = found.read_rows;
  NotFiniteCounter counter(slots, &result.rows);
  CKPTDB_RETURN_IF_ERROR(LookUpRows(step_, table, slots, FoundIds(found),
                                    options_.read, &counter));
  if (options_.find_onsets) CKPTDB_RETURN_IF_ERROR(FindRowOnsets(&result));
  return result;
}

// Subjects are indexes into the rows, which are in order of id.
absl::Status NotFiniteSearch::FindRowOnsets(NotFiniteTable* table) {
  const auto test = [&](const StepReader& step,
                        const std::vector<size_t>& subjects)
      -> absl::StatusOr<std::vector<size_t>> {
    std::map<int64_t, size_t> subject_of;
    for (const size_t i : subjects) subject_of[table->rows[i].id] = i;
    std::vector<int64_t> ids;
    for (const auto& [id, subject] : subject_of) ids.push_back(id);
    const auto found = SearchRows(step,
                                  {.table = table->name,
                                   .ids = IdList::Of(ids),
                                   .not_finite = true,
                                   .limit = ids.size()},
                                  options_.read);
    std::vector<size_t> holds;
    // The step may lack the table.
    if (absl::IsNotFound(found.status())) return holds;
    CKPTDB_RETURN_IF_ERROR(found.status());
    for (const FoundRow& row : found->rows) {
      holds.push_back(subject_of[row.id]);
    }
    return holds;
  };
  CKPTDB_ASSIGN_OR_RETURN(
      std::vector<Onset> onsets,
      FindOnsets(reader_, history_, table->rows.size(), test));
  for (size_t i = 0; i < onsets.size(); ++i) {
    table->rows[i].onset = std::move(onsets[i]);
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<NotFinite> FindNotFinite(Reader* reader, const StepReader& step,
                                        const NotFiniteOptions& options) {
  NotFinite found;
  NotFiniteSearch search(reader, step, options);
  CKPTDB_RETURN_IF_ERROR(search.AddTensors(&found));
  for (const std::string& table :
       NamesOf(step, Item::Kind::kRows, options.glob)) {
    CKPTDB_ASSIGN_OR_RETURN(NotFiniteTable rows, search.FindRows(table));
    // Tables without slots of floats are not read.
    if (rows.read_rows > 0) found.tables.push_back(std::move(rows));
  }
  return found;
}

}  // namespace ckptdb::tool
