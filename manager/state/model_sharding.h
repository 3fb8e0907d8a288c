// SPDX-License-Identifier: Apache-2.0
// The declared sharding of a model's tables; internal to manager/.
#ifndef CKPTDB_MANAGER_STATE_MODEL_SHARDING_H_
#define CKPTDB_MANAGER_STATE_MODEL_SHARDING_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "db/base/mutex.h"
#include "db/base/own_rows.h"
#include "db/reader.h"
#include "db/state.h"
#include "manager/model_state.h"

namespace ckptdb::internal {

// Returns each table's sharding, in the model's order: the declared one, or
// else `of_all`, with even slice bounds if it is by slices without bounds.
// Returns InvalidArgument naming the table if none is declared and there are
// several ranks, if it is unchecked, if its bounds differ from another table's,
// or if CheckSharding refuses it.
absl::StatusOr<std::vector<TableSharding>> ResolveShardings(
    const ModelState& model, const TableSharding& of_all, uint32_t world_size);

// Returns FailedPrecondition unless the model has as many tables as when its
// manager was opened, which resolved `shardings`.
absl::Status CheckTables(const ModelState& model,
                         absl::Span<const TableSharding> shardings);

// Describes the declarations that must match on all ranks: `table "user" by
// modulo; ...`.
std::string DescribeShardings(const ModelState& model,
                              const std::vector<TableSharding>& shardings);

// Returns the bounds of the tables by slices; empty without such a table.
std::vector<uint32_t> SliceBoundsOf(
    const std::vector<TableSharding>& shardings);

// Selects the rows of a step's table that belong to one rank.
class RowFilter {
 public:
  // `hash` is the slice hash of the model's table.
  RowFilter(const TableSharding& sharding, SliceHash hash, uint32_t rank,
            uint32_t world_size);

  // Restricts a scan of the step's `table` to those rows. The filter must
  // outlive the scan.
  void Apply(const StepReader::TableSpec& table, ScanOptions* scan);

  // Returns, after the scan, InvalidArgument if the function or the ranges gave
  // an id no rank.
  absl::Status status() const;

 private:
  // Sets keep[i] for each id of a page, by the trainer's function.
  void Keep(absl::Span<const int64_t> ids, absl::Span<uint8_t> keep);

  const TableSharding sharding_;
  const SliceHash hash_;
  const uint32_t rank_;
  const uint32_t world_size_;
  const OwnRows own_;
  mutable Mutex mutex_;
  // Describes the first id that was given no rank; may be empty.
  std::string no_rank_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace ckptdb::internal

#endif  // CKPTDB_MANAGER_STATE_MODEL_SHARDING_H_
