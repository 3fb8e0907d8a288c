// SPDX-License-Identifier: Apache-2.0
// Chains, branches, and the path of changes between two steps, computed from
// the records in memory. Internal to db/.
#ifndef CKPTDB_DB_META_LINEAGE_H_
#define CKPTDB_DB_META_LINEAGE_H_

#include <cstdint>
#include <map>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "db/meta/catalog.h"
#include "db/options.h"
#include "schema/types.h"

namespace ckptdb::internal {

// Returns whether `parent` names this step's state: its version, or the version
// that it was folded from.
bool IsState(const StepRecord& step, const Version& parent);

// Returns the step that a save continues: SaveSpec::parent, or the newest step
// if that is not set. Returns a record of attempt 0 if there is no such step,
// and the errors of SaveSpec::parent.
absl::StatusOr<StepRecord> FindParent(const Catalog& catalog,
                                      const SaveSpec& spec);

// Returns the branches of a save on top of `parent` by `attempt`. The save
// begins a new branch if a known version was already saved on top of the
// parent.
std::vector<StepRecord::Branch> BranchesOver(const Catalog& catalog,
                                             const StepRecord& parent,
                                             uint32_t attempt);

// Returns StepRecord::owners of a save by `owner`, as `attempt`, on `parent`.
std::map<uint32_t, uint64_t> OwnersOver(const StepRecord& parent,
                                        uint32_t attempt, uint64_t owner);

// Returns the direct and indirect descendants of `step`, by number.
std::vector<StepRecord> DescendantsOf(const Catalog& catalog,
                                      const StepRecord& step);

// Returns the records of a step's chain, base first and the step last. Returns
// DataLoss naming a member that is missing, belongs to another store, or is not
// the version that its successor was saved on top of.
absl::StatusOr<std::vector<StepRecord>> ChainOf(const Catalog& catalog,
                                                const StepRecord& step);

// Returns the record of a version, or of the version that it was folded into,
// which has the same state; null if neither exists.
const StepRecord* FindState(const Catalog& catalog, const Version& version);

// The versions whose delta runs lead from one state to another: first undo
// those from `from` back to the common ancestor, then redo those from there to
// `to`. Both are newest first.
struct Path {
  std::vector<StepRecord> undo;
  std::vector<StepRecord> redo;
};
// `from` is a version that was saved or restored. Returns FailedPrecondition
// naming the step at which the path breaks: it was saved in full, is gone, or
// is retired and may have lost its delta runs.
absl::StatusOr<Path> FindPath(const Catalog& catalog, const Version& from,
                              const StepRecord& to);

}  // namespace ckptdb::internal

#endif  // CKPTDB_DB_META_LINEAGE_H_
