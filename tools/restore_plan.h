// What a restore of a step would read, from the records alone: none of the
// data is read for it.
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
#include "ckptdb/db/change_reader.h"
#include "ckptdb/db/step_reader.h"
#include "ckptdb/schema/slice.h"

namespace ckptdb::tool {

struct PlannedTable {
  std::string name;
  // As the step recorded it.
  ShardingKind sharding = ShardingKind::kUndeclared;
  std::string sharding_name;
  // Those that the rank reads: all of a table that is not by slices.
  SliceRange slices;
  ScanEstimate read;
  // Of an incremental restore: why all rows are read all the same; empty: they
  // are not.
  std::string full_read_reason;
};

// Of tensors, or of blobs.
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

  ScanEstimate all_tables() const;
};

// Of the tables by slices, if there are any.
enum class SliceAssignment {
  kAsSaved,
  kEven,
  // None is: the ranks that saved the step divided rows in a way of their own,
  // and each rank reads the ids of all rows, and the pages that have any of its
  // own.
  kNone,
  // All are replicated: each rank reads all rows.
  kReplicated,
};

struct RestorePlan {
  SliceAssignment assignment = SliceAssignment::kEven;
  std::vector<PlannedRank> ranks;
};

// By so many ranks.
absl::StatusOr<RestorePlan> PlanRestore(const StepReader& step,
                                        uint32_t world_size);

// The same by what changed since the step that `changes` begin at. Where they
// do not go forwards, a table's bytes are those of all that is looked into.
absl::StatusOr<RestorePlan> PlanRestore(const ChangeReader& changes,
                                        uint32_t world_size);

}  // namespace ckptdb::tool

#endif  // CKPTDB_TOOLS_RESTORE_PLAN_H_
