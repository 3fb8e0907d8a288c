// SPDX-License-Identifier: Apache-2.0
// Plans what a restore of a step would read. Reads the step's records and none
// of its data.
//
//   CKPTDB_ASSIGN_OR_RETURN(const RestorePlan plan,
//                           PlanRestore(*step, /*world_size=*/8));
//
// If the saving ranks divided a table by slices, each rank reads the rows of
// its slices. If they divided it in another way, it reads the ids of all rows
// and the pages that contain any of its own, or all pages if the table is
// replicated. It reads whole tensors, or its own parts if as many ranks restore
// as saved. It reads the blobs that it saved, or all blobs if the number of
// ranks differs.
#ifndef CKPTDB_TOOLS_RESTORE_PLAN_H_
#define CKPTDB_TOOLS_RESTORE_PLAN_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "db/reader.h"
#include "schema/types.h"

namespace ckptdb::tool {

struct PlannedTable {
  std::string name;
  // The sharding that the step recorded.
  Item::Sharding sharding = Item::Sharding::kUndeclared;
  std::string sharding_name;
  // The slices that the rank reads: all if the table is not divided by slices.
  SliceRange slices;
  StepReader::ScanEstimate read;
  // Why an incremental restore reads all rows. Empty if it does not.
  std::string full_read_reason;
};

// The tensors, or the blobs, to read.
struct PlannedItems {
  uint64_t items = 0;
  uint64_t bytes = 0;  // as stored
};

struct PlannedRank {
  uint32_t rank = 0;
  SliceRange slices;
  std::vector<PlannedTable> tables;  // by name
  PlannedItems tensors;
  PlannedItems blobs;

  StepReader::ScanEstimate all_tables() const;
};

// Which slices each rank reads of tables that are divided by slices.
enum class SliceAssignment {
  kAsSaved,
  kEven,
  // No table is divided by slices. Each rank reads the ids of all rows, and the
  // pages that contain any of its own.
  kNone,
  // All tables are replicated, and each rank reads all rows.
  kReplicated,
};

struct RestorePlan {
  SliceAssignment assignment = SliceAssignment::kEven;
  std::vector<PlannedRank> ranks;
};

// Plans a restore by `world_size` ranks.
absl::StatusOr<RestorePlan> PlanRestore(const StepReader& step,
                                        uint32_t world_size);

// Plans an incremental restore from the step where `changes` begin. If they go
// backwards, a table's bytes include all runs in which rows are looked up.
absl::StatusOr<RestorePlan> PlanRestore(const ChangeReader& changes,
                                        uint32_t world_size);

}  // namespace ckptdb::tool

#endif  // CKPTDB_TOOLS_RESTORE_PLAN_H_
