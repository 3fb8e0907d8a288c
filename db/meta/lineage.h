// How versions come from one another: chains, branches, and the way from one
// step to another; over the records in memory. Internal to db/.
#ifndef CKPTDB_DB_META_LINEAGE_H_
#define CKPTDB_DB_META_LINEAGE_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "ckptdb/db/meta/catalog.h"
#include "ckptdb/db/options.h"
#include "ckptdb/schema/records.h"

namespace ckptdb::internal {

// Whether a save that says it goes on from `parent` means this step: its
// version, or the version that it was folded from.
bool IsState(const StepRecord& step, const Version& parent);

// The step that a save goes on from: spec.parent, or the newest. A record of
// attempt 0 when there is none. Errors as SaveSpec::parent says.
absl::StatusOr<StepRecord> FindParent(const Catalog& catalog,
                                      const SaveSpec& spec);

// The branches of a save over `parent`, made by `attempt`. Its own is a new one
// when anything that is still known was saved over the parent already.
std::vector<Branch> BranchesOver(const Catalog& catalog,
                                 const StepRecord& parent, uint32_t attempt);

// The steps that come from `step`, over whatever versions, by step.
std::vector<StepRecord> DescendantsOf(const Catalog& catalog,
                                      const StepRecord& step);

// The records of a step's chain, base first and the step itself last. Checks
// each: that it is there, of this store, and the very one its successor was
// saved over. DataLoss naming what is wrong.
absl::StatusOr<std::vector<StepRecord>> ChainOf(const Catalog& catalog,
                                                const StepRecord& step);

// The record of a version, or of what it was folded into, which is the same
// state; null when there is neither.
const StepRecord* FindState(const Catalog& catalog, const Version& version);

// The versions whose delta runs lead from one state to another: those to undo,
// from the common ancestor to `from`, and those to redo, from there to `to`;
// each newest first.
struct Path {
  std::vector<StepRecord> undo;
  std::vector<StepRecord> redo;
};
// `from` as a version that was saved or restored. FailedPrecondition naming
// the step at which the way ends: one that was saved whole, or is gone, or is
// retired and nothing is sure to keep its delta runs.
absl::StatusOr<Path> FindPath(const Catalog& catalog, const Version& from,
                              const StepRecord& to);

}  // namespace ckptdb::internal

#endif  // CKPTDB_DB_META_LINEAGE_H_
