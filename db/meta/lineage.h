// The lineage of versions: chains, branches, and the way from one step to
// another, over the records in memory. Internal to db/.
#ifndef CKPTDB_DB_META_LINEAGE_H_
#define CKPTDB_DB_META_LINEAGE_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "ckptdb/db/meta/catalog.h"
#include "ckptdb/db/options.h"
#include "ckptdb/schema/types.h"

namespace ckptdb::internal {

// Returns whether `parent` names the state of this step: its version, or the
// version that it was folded from.
bool IsState(const StepRecord& step, const Version& parent);

// Returns the step that a save goes on from: SaveSpec::parent, or else the
// newest step. A record of attempt 0 when there is none. Errors as
// SaveSpec::parent says.
absl::StatusOr<StepRecord> FindParent(const Catalog& catalog,
                                      const SaveSpec& spec);

// Returns the branches of a save over `parent`, made by `attempt`. The save
// begins a new one when a version that is still known was saved over the parent
// before.
std::vector<StepRecord::Branch> BranchesOver(const Catalog& catalog,
                                             const StepRecord& parent,
                                             uint32_t attempt);

// Returns the steps that come from `step`, directly or over other versions, by
// number.
std::vector<StepRecord> DescendantsOf(const Catalog& catalog,
                                      const StepRecord& step);

// Returns the records of a step's chain, base first and the step itself last.
// Returns DataLoss naming the member that is missing, that belongs to another
// store, or that is not the one that its successor was saved over.
absl::StatusOr<std::vector<StepRecord>> ChainOf(const Catalog& catalog,
                                                const StepRecord& step);

// Returns the record of a version, or of the version that it was folded into,
// which has the same state; null when there is neither.
const StepRecord* FindState(const Catalog& catalog, const Version& version);

// The versions whose delta runs lead from one state to another: those to undo,
// from the common ancestor to `from`, and those to redo, from there to `to`;
// each newest first.
struct Path {
  std::vector<StepRecord> undo;
  std::vector<StepRecord> redo;
};
// `from` is a version that was saved or restored. Returns FailedPrecondition
// naming the step at which the changes end: it was saved whole, or is gone, or
// is retired and nothing is sure to keep its delta runs.
absl::StatusOr<Path> FindPath(const Catalog& catalog, const Version& from,
                              const StepRecord& to);

}  // namespace ckptdb::internal

#endif  // CKPTDB_DB_META_LINEAGE_H_
