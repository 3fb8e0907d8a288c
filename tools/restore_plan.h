// Plans what a restore of a step would read. It reads the records of the step
// and none of its data.
//
//   CKPTDB_ASSIGN_OR_RETURN(const RestorePlan plan,
//                           PlanRestore(*step, /*world_size=*/8));
//
// Each rank reads the rows of its slices of a table that the saving ranks
// divided by slices; of one that they divided in another way the ids of all
// rows, and the pages that have any of its own, or all when it is replicated. A
// tensor is read whole, unless as many ranks as saved it restore, and each its
// own part. Of blobs a rank reads those that it saved, or all when other ranks
// did.
#ifndef CKPTDB_TOOLS_RESTORE_PLAN_H_
#define CKPTDB_TOOLS_RESTORE_PLAN_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "ckptdb/db/reader.h"
#include "ckptdb/schema/types.h"

namespace ckptdb::tool {

struct PlannedTable {
  std::string name;
  // The sharding that the step recorded.
  Item::Sharding sharding = Item::Sharding::kUndeclared;
  std::string sharding_name;
  // The slices that the rank reads; all when the table is not divided by
  // slices.
  SliceRange slices;
  StepReader::ScanEstimate read;
  // Reason why an incremental restore reads all rows; empty when it does not.
  std::string full_read_reason;
};

// The tensors, or the blobs, that are read.
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

// Says which slices each rank reads of the tables that are divided by slices.
enum class SliceAssignment {
  kAsSaved,
  kEven,
  // No table is divided by slices. Each rank reads the ids of all rows, and the
  // pages that have any of its own.
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

// Plans an incremental restore from the step where `changes` begin. When they
// go backwards, the bytes of a table are those of all runs that are looked
// into.
absl::StatusOr<RestorePlan> PlanRestore(const ChangeReader& changes,
                                        uint32_t world_size);

}  // namespace ckptdb::tool

#endif  // CKPTDB_TOOLS_RESTORE_PLAN_H_
