// SPDX-License-Identifier: Apache-2.0
#include "manager/state/model_sharding.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/types/span.h"
#include "db/base/staging.h"
#include "manager/state/registered_state.h"
#include "schema/bytes/annotate.h"
#include "schema/status.h"

namespace ckptdb::internal {
namespace {

// Returns the sharding that a table declares, or else that of all tables.
// Bounds that were left open become even shares, so that ranks can compare them
// and a step can record them.
absl::StatusOr<TableSharding> Resolve(const RegisteredTable& table,
                                      const TableSharding& of_all,
                                      uint32_t world_size) {
  TableSharding sharding = table.sharding.declared() ? table.sharding : of_all;
  CKPTDB_RETURN_IF_ERROR(CheckSharding(sharding, world_size));
  if (sharding.kind() == Item::Sharding::kBySlices &&
      sharding.bounds().empty()) {
    return TableSharding::BySlices(EvenSliceBounds(world_size));
  }
  if (sharding.kind() == Item::Sharding::kReplicated &&
      table.state->columns().has_value()) {
    return absl::InvalidArgumentError(
        "its columns are divided among ranks, so one rank must save each row, "
        "but it is TableSharding::Replicated(); declare ByRange(rows) or "
        "another sharding");
  }
  if (sharding.kind() != Item::Sharding::kUndeclared) return sharding;
  if (sharding.declared()) {
    return absl::InvalidArgumentError(
        absl::StrCat("TableSharding::Unchecked() is for stores without a "
                     "manager; a manager cannot restore it; use one of ",
                     kShardingChoices));
  }
  // A single rank has all rows and needs no declaration.
  if (world_size == 1) return sharding;
  return absl::InvalidArgumentError(absl::StrCat(
      "it declares no sharding among ", world_size,
      " ranks; give ModelState::AddTable or ManagerOptions::ranks.sharding ",
      kShardingChoices));
}

std::string RangesText(const TableSharding& sharding) {
  if (sharding.id_bounds().empty()) {
    return absl::StrCat("of ", sharding.rows(), " rows");
  }
  return absl::StrCat("[", absl::StrJoin(sharding.id_bounds(), ", "), "]");
}

}  // namespace

absl::StatusOr<std::vector<TableSharding>> ResolveShardings(
    const ModelState& model, const TableSharding& of_all, uint32_t world_size) {
  std::vector<TableSharding> shardings;
  const std::string* first = nullptr;  // name of the first by slices
  std::vector<uint32_t> bounds;
  for (const RegisteredTable& table : model.tables()) {
    const std::string place = absl::StrCat("table \"", table.name, "\"");
    CKPTDB_ASSIGN_OR_RETURN(
        const TableSharding sharding,
        Annotate(Resolve(table, of_all, world_size), place));
    shardings.push_back(sharding);
    if (sharding.kind() != Item::Sharding::kBySlices) continue;
    if (first == nullptr) {
      first = &table.name;
      bounds = sharding.bounds();
    } else if (bounds != sharding.bounds()) {
      return absl::InvalidArgumentError(absl::StrCat(
          place, ": its slice bounds [", absl::StrJoin(sharding.bounds(), ", "),
          "] differ from [", absl::StrJoin(bounds, ", "), "] of table \"",
          *first, "\"; a step has a single set of bounds"));
    }
  }
  return shardings;
}

absl::Status CheckTables(const ModelState& model,
                         absl::Span<const TableSharding> shardings) {
  if (model.tables().size() == shardings.size()) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("the model has ", model.tables().size(), " tables, but had ",
                   shardings.size(),
                   " when its manager was opened; register all tables before "
                   "CheckpointManager::Open"));
}

std::string DescribeShardings(const ModelState& model,
                              const std::vector<TableSharding>& shardings) {
  if (shardings.empty()) return "no table";
  std::vector<std::string> tables;
  for (size_t t = 0; t < shardings.size(); ++t) {
    const TableSharding& sharding = shardings[t];
    std::string& table = tables.emplace_back(
        absl::StrCat("table \"", model.tables()[t].name, "\" by ",
                     DescribeSharding(sharding.kind(), sharding.name())));
    if (sharding.kind() == Item::Sharding::kByRange) {
      absl::StrAppend(&table, " ", RangesText(sharding));
    }
    if (sharding.bounds().empty()) continue;
    absl::StrAppend(&table, " [", absl::StrJoin(sharding.bounds(), ", "), "]");
  }
  return absl::StrJoin(tables, "; ");
}

// Any table by slices will do, because ResolveShardings refuses a model with
// different bounds.
std::vector<uint32_t> SliceBoundsOf(
    const std::vector<TableSharding>& shardings) {
  for (const TableSharding& sharding : shardings) {
    if (sharding.kind() == Item::Sharding::kBySlices) return sharding.bounds();
  }
  return {};
}

RowFilter::RowFilter(const TableSharding& sharding, SliceHash hash,
                     uint32_t rank, uint32_t world_size)
    : sharding_(sharding),
      hash_(hash),
      rank_(rank),
      world_size_(world_size),
      own_(sharding, hash, rank, world_size) {}

void RowFilter::Apply(const StepReader::TableSpec& table, ScanOptions* scan) {
  switch (sharding_.kind()) {
    case Item::Sharding::kUndeclared:
    case Item::Sharding::kReplicated:
      return;
    case Item::Sharding::kBySlices:
      // The step's slices equal the model's only if the slice hashes do.
      if (table.slice_hash == hash_) {
        scan->slices = {sharding_.bounds()[rank_],
                        sharding_.bounds()[rank_ + size_t{1}]};
        return;
      }
      break;
    case Item::Sharding::kCustom:
    case Item::Sharding::kByRange:
      scan->wanted_of_page = [this](absl::Span<const int64_t> ids,
                                    absl::Span<uint8_t> keep) {
        Keep(ids, keep);
      };
      return;
    case Item::Sharding::kByModulo:
      break;
  }
  scan->wanted = [this](int64_t id) {
    return own_.Has(id, SliceOf(id, hash_));
  };
}

void RowFilter::Keep(absl::Span<const int64_t> ids, absl::Span<uint8_t> keep) {
  std::vector<uint32_t> ranks(ids.size());
  sharding_.ranks_of()(ids, world_size_, absl::MakeSpan(ranks));
  for (size_t i = 0; i < ids.size(); ++i) {
    keep[i] = ranks[i] == rank_ ? 1 : 0;
    if (ranks[i] < world_size_) continue;
    // The function or the ranges gave it no rank of this world, so no rank
    // would load the row.
    const MutexLock lock(&mutex_);
    if (no_rank_.empty()) no_rank_ = own_.DescribeNoRank(ids[i]);
  }
}

absl::Status RowFilter::status() const {
  const MutexLock lock(&mutex_);
  if (no_rank_.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(no_rank_);
}

}  // namespace ckptdb::internal
