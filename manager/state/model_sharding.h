// What the tables of a model declare of how their rows are divided among ranks;
// internal to manager/.
#ifndef CKPTDB_MANAGER_STATE_MODEL_SHARDING_H_
#define CKPTDB_MANAGER_STATE_MODEL_SHARDING_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "ckptdb/db/base/mutex.h"
#include "ckptdb/db/sharding.h"
#include "ckptdb/db/step_reader.h"
#include "ckptdb/manager/model_state.h"

namespace ckptdb::internal {

// By table, in the order of the model's: what the table declares, or else
// `of_all`, with even slice bounds where it is by slices and says no others.
// InvalidArgument naming the table: one of several ranks that declares nothing,
// one that is unchecked, bounds other than another table's, what CheckSharding
// says.
absl::StatusOr<std::vector<TableSharding>> ResolveShardings(
    const ModelState& model, const TableSharding& of_all, uint32_t world_size);

// What ranks must declare alike, in words: `table "user" by modulo; ...`.
std::string DescribeShardings(const ModelState& model,
                              const std::vector<TableSharding>& shardings);

// Those of the tables by slices; empty when there are none.
std::vector<uint32_t> SliceBoundsOf(
    const std::vector<TableSharding>& shardings);

// Which rows of a table in a step are those of one rank.
class RowFilter {
 public:
  // `hash` is the table's of the model.
  RowFilter(const TableSharding& sharding, SliceHash hash, uint32_t rank,
            uint32_t world_size);

  // Has a scan of the step's `table` hand out those rows alone. The filter
  // outlives it.
  void Apply(const TableSpec& table, ScanOptions* scan);

  // After the scan. InvalidArgument when a function gave an id to no rank.
  absl::Status status() const;

 private:
  bool Wants(int64_t id);

  const TableSharding sharding_;
  const SliceHash hash_;
  const uint32_t rank_;
  const uint32_t world_size_;
  const OwnRows own_;
  mutable Mutex mutex_;
  // The first id that a function gave to no rank, in words; empty: none.
  std::string no_rank_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace ckptdb::internal

#endif  // CKPTDB_MANAGER_STATE_MODEL_SHARDING_H_
