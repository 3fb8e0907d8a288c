// The declared sharding of the tables of a model; internal to manager/.
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
#include "ckptdb/db/base/own_rows.h"
#include "ckptdb/db/reader.h"
#include "ckptdb/db/state.h"
#include "ckptdb/manager/model_state.h"

namespace ckptdb::internal {

// Returns for each table, in the order of the model, what the table declares,
// or else `of_all`, with even slice bounds where it is by slices and says no
// others. InvalidArgument, which names the table, when it declares nothing and
// there are several ranks, when it is unchecked, when its bounds are not those
// of another table, and when CheckSharding refuses it.
absl::StatusOr<std::vector<TableSharding>> ResolveShardings(
    const ModelState& model, const TableSharding& of_all, uint32_t world_size);

// Returns in words what ranks must declare alike: `table "user" by modulo;
// ...`.
std::string DescribeShardings(const ModelState& model,
                              const std::vector<TableSharding>& shardings);

// Returns the bounds of the tables by slices; empty when there are none.
std::vector<uint32_t> SliceBoundsOf(
    const std::vector<TableSharding>& shardings);

// Picks the rows of a table in a step that are those of one rank.
class RowFilter {
 public:
  // `hash` is the slice hash of the table in the model.
  RowFilter(const TableSharding& sharding, SliceHash hash, uint32_t rank,
            uint32_t world_size);

  // Restricts a scan of the step's `table` to those rows. The filter outlives
  // the scan.
  void Apply(const StepReader::TableSpec& table, ScanOptions* scan);

  // Returns, after the scan, InvalidArgument when a function gave an id to no
  // rank.
  absl::Status status() const;

 private:
  bool Wants(int64_t id);

  const TableSharding sharding_;
  const SliceHash hash_;
  const uint32_t rank_;
  const uint32_t world_size_;
  const OwnRows own_;
  mutable Mutex mutex_;
  // The first id that a function gave to no rank, in words; empty when there is
  // none.
  std::string no_rank_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace ckptdb::internal

#endif  // CKPTDB_MANAGER_STATE_MODEL_SHARDING_H_
