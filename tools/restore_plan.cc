// SPDX-License-Identifier: Apache-2.0
#include "tools/restore_plan.h"

#include <map>
#include <optional>
#include <set>
#include <utility>

#include "schema/status.h"
#include "schema/types.h"
#include "tools/json.h"

namespace ckptdb::tool {
namespace {

void AddEstimate(const StepReader::ScanEstimate& more,
                 StepReader::ScanEstimate* sum) {
  sum->base_runs += more.base_runs;
  sum->delta_runs += more.delta_runs;
  sum->rows += more.rows;
  sum->max_rows += more.max_rows;
  sum->erased_rows += more.erased_rows;
  sum->stored_bytes += more.stored_bytes;
}

// The parts of a tensor by their place. Replicas count once.
struct TensorParts {
  std::map<std::pair<Shape, Shape>, uint64_t> bytes;
  std::map<uint32_t, uint64_t> of_rank;
};

// Adds up the tensors and blobs to read.
class DenseItems {
 public:
  // Reads only the items in `changed`, or all if it is null.
  DenseItems(const StepReader& step,
             const std::vector<StepRecord::Rank>* changed) {
    std::set<std::string> tensors;
    std::set<std::pair<uint32_t, std::string>> blobs;
    for (const StepRecord::Rank& rank :
         changed == nullptr ? std::vector<StepRecord::Rank>() : *changed) {
      for (const Item& item : rank.items) {
        if (item.kind == Item::Kind::kTensor) tensors.insert(item.name);
        if (item.kind == Item::Kind::kBlob) {
          blobs.insert({rank.rank, item.name});
        }
      }
    }
    for (const StepRecord::Rank& rank : step.ranks()) {
      for (const Item& item : rank.items) {
        if (item.kind == Item::Kind::kTensor &&
            (changed == nullptr || tensors.contains(item.name))) {
          AddTensor(rank.rank, item);
        }
        if (item.kind == Item::Kind::kBlob &&
            (changed == nullptr || blobs.contains({rank.rank, item.name}))) {
          Add(item.stored_bytes, &blobs_[rank.rank]);
        }
      }
    }
  }

  // `rank` is set if as many ranks restore as saved.
  PlannedItems TensorsOf(std::optional<uint32_t> rank) const {
    PlannedItems planned;
    for (const auto& [name, tensor] : tensors_) {
      // If as many ranks restore as saved, each reads its own part of a tensor
      // with several parts. Otherwise a rank reads each part once.
      if (rank.has_value() && tensor.bytes.size() > 1) {
        const auto part = tensor.of_rank.find(*rank);
        if (part != tensor.of_rank.end()) Add(part->second, &planned);
        continue;
      }
      uint64_t bytes = 0;
      for (const auto& [box, stored_bytes] : tensor.bytes) {
        bytes += stored_bytes;
      }
      Add(bytes, &planned);
    }
    return planned;
  }
  PlannedItems BlobsOf(std::optional<uint32_t> rank) const {
    PlannedItems planned;
    for (const auto& [saved, blobs] : blobs_) {
      if (rank.has_value() && *rank != saved) continue;
      planned.items += blobs.items;
      planned.bytes += blobs.bytes;
    }
    return planned;
  }

 private:
  static void Add(uint64_t bytes, PlannedItems* planned) {
    ++planned->items;
    planned->bytes += bytes;
  }
  void AddTensor(uint32_t rank, const Item& item) {
    TensorParts& parts = tensors_[item.name];
    parts.bytes.emplace(std::make_pair(item.offset, item.shape),
                        item.stored_bytes);
    parts.of_rank[rank] += item.stored_bytes;
  }

  std::map<std::string, TensorParts> tensors_;
  std::map<uint32_t, PlannedItems> blobs_;
};

SliceAssignment AssignmentOf(const StepRecord& step, uint32_t world_size) {
  // A step saved by one rank has no bounds, but slices can divide it.
  if (step.slice_bounds.empty()) {
    return step.world_size > 1 ? SliceAssignment::kNone
                               : SliceAssignment::kEven;
  }
  return step.world_size == world_size ? SliceAssignment::kAsSaved
                                       : SliceAssignment::kEven;
}

// Returns whether a rank reads slices of the table. An undeclared table saved
// by a single rank can be divided by slices, too.
bool IsBySlices(const StepRecord& step, const StepReader::TableSpec& table) {
  return table.sharding == Item::Sharding::kBySlices ||
         (table.sharding == Item::Sharding::kUndeclared &&
          (step.world_size == 1 || !step.slice_bounds.empty()));
}

// Returns the slices of each rank, or all slices for each if slices are not
// assigned.
std::vector<SliceRange> SlicesOf(const StepRecord& step, uint32_t world_size,
                                 SliceAssignment assignment) {
  std::vector<SliceRange> slices(world_size);
  if (assignment == SliceAssignment::kNone ||
      assignment == SliceAssignment::kReplicated) {
    return slices;
  }
  const std::vector<uint32_t> bounds = assignment == SliceAssignment::kAsSaved
                                           ? step.slice_bounds
                                           : EvenSliceBounds(world_size);
  for (size_t r = 0; r < slices.size(); ++r) {
    slices[r] = {bounds[r], bounds[r + 1]};
  }
  return slices;
}

using Tables = std::map<std::string, StepReader::TableSpec>;

absl::StatusOr<Tables> TablesOf(const StepReader& step) {
  Tables tables;
  for (const StepRecord::Rank& rank : step.ranks()) {
    for (const Item& item : rank.items) {
      if (item.kind != Item::Kind::kRows || tables.contains(item.name))
        continue;
      CKPTDB_ASSIGN_OR_RETURN(tables[item.name], step.FindTable(item.name));
    }
  }
  return tables;
}

SliceAssignment AssignmentOf(const StepRecord& step, const Tables& tables,
                             uint32_t world_size) {
  bool all_replicated = true;
  for (const auto& [name, table] : tables) {
    if (IsBySlices(step, table)) return AssignmentOf(step, world_size);
    all_replicated &= table.sharding == Item::Sharding::kReplicated;
  }
  if (tables.empty()) return AssignmentOf(step, world_size);
  return all_replicated ? SliceAssignment::kReplicated : SliceAssignment::kNone;
}

// Plans to read all rows, or only the changed rows if `changes` lead to them.
absl::StatusOr<PlannedTable> PlanTable(const StepReader& step,
                                       const ChangeReader* changes,
                                       const std::string& name,
                                       const StepReader::TableSpec& spec,
                                       const SliceRange& slices) {
  PlannedTable table;
  table.name = name;
  table.sharding = spec.sharding;
  table.sharding_name = spec.sharding_name;
  table.slices = slices;
  if (changes != nullptr) {
    const auto estimate = changes->EstimateScan(name, slices);
    // FailedPrecondition means that the table was saved in full in between, so
    // it is read in full.
    if (!absl::IsFailedPrecondition(estimate.status())) {
      CKPTDB_RETURN_IF_ERROR(estimate.status());
      table.read = *estimate;
      // Backwards, the changed ids are looked up in the step. The records do
      // not say in which runs, so all runs count, and the sum is an upper
      // bound.
      if (changes->forwards() || estimate->delta_runs == 0) return table;
      CKPTDB_ASSIGN_OR_RETURN(const StepReader::ScanEstimate all,
                              step.EstimateScan(name, slices));
      table.read.base_runs += all.base_runs;
      table.read.delta_runs += all.delta_runs;
      table.read.stored_bytes += all.stored_bytes;
      return table;
    }
    table.full_read_reason = Str(estimate.status().message());
  }
  CKPTDB_ASSIGN_OR_RETURN(table.read, step.EstimateScan(name, slices));
  return table;
}

// Plans each rank separately. As far as the records show, each rank reads all
// of a table that is not divided by slices.
absl::StatusOr<RestorePlan> Plan(const StepReader& step,
                                 const ChangeReader* changes,
                                 uint32_t world_size) {
  std::vector<StepRecord::Rank> changed;
  if (changes != nullptr) changed = changes->ChangedItems();
  const DenseItems dense(step, changes == nullptr ? nullptr : &changed);
  CKPTDB_ASSIGN_OR_RETURN(const Tables tables, TablesOf(step));
  const bool same_world = step.record().world_size == world_size;
  RestorePlan plan;
  plan.assignment = AssignmentOf(step.record(), tables, world_size);
  const auto slices = SlicesOf(step.record(), world_size, plan.assignment);
  for (uint32_t r = 0; r < world_size; ++r) {
    PlannedRank& rank = plan.ranks.emplace_back();
    rank.rank = r;
    rank.slices = slices[r];
    for (const auto& [name, table] : tables) {
      const SliceRange read =
          IsBySlices(step.record(), table) ? rank.slices : SliceRange();
      CKPTDB_ASSIGN_OR_RETURN(rank.tables.emplace_back(),
                              PlanTable(step, changes, name, table, read));
    }
    const auto saved_rank =
        same_world ? std::optional<uint32_t>(r) : std::nullopt;
    rank.tensors = dense.TensorsOf(saved_rank);
    rank.blobs = dense.BlobsOf(saved_rank);
  }
  return plan;
}

}  // namespace

StepReader::ScanEstimate PlannedRank::all_tables() const {
  StepReader::ScanEstimate sum;
  for (const PlannedTable& table : tables) AddEstimate(table.read, &sum);
  return sum;
}

absl::StatusOr<RestorePlan> PlanRestore(const StepReader& step,
                                        uint32_t world_size) {
  return Plan(step, nullptr, world_size);
}

absl::StatusOr<RestorePlan> PlanRestore(const ChangeReader& changes,
                                        uint32_t world_size) {
  return Plan(changes.to(), &changes, world_size);
}

}  // namespace ckptdb::tool
