// Which steps a step descends from, by the branches in their records.
#ifndef CKPTDB_SCHEMA_RECORDS_BRANCHES_H_
#define CKPTDB_SCHEMA_RECORDS_BRANCHES_H_

#include "absl/types/span.h"
#include "ckptdb/schema/types.h"

namespace ckptdb::internal {

// Returns whether a step whose own branch, the last of its record, is `own`
// lies on the way to a step with these branches: it is that step or an ancestor
// of it. The branches are those of a record, which ascend.
bool IsOnLineage(const StepRecord::Branch& own,
                 absl::Span<const StepRecord::Branch> branches);

// Returns whether `step` was saved on top of `ancestor`, directly or over other
// versions. Returns false for the ancestor itself, and for the version that it
// was folded into.
bool DescendsFrom(const StepRecord& step, const StepRecord& ancestor);

}  // namespace ckptdb::internal

#endif  // CKPTDB_SCHEMA_RECORDS_BRANCHES_H_
