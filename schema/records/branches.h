// SPDX-License-Identifier: Apache-2.0
// Decides which steps a step descends from, using the branches and owners in
// their records.
#ifndef CKPTDB_SCHEMA_RECORDS_BRANCHES_H_
#define CKPTDB_SCHEMA_RECORDS_BRANCHES_H_

#include "absl/types/span.h"
#include "schema/types.h"

namespace ckptdb::internal {

// `own` is a step's own branch, the last in its record. Returns whether that
// step is the step with these `branches` or an ancestor of it. `branches` are
// those of a record, which ascend.
bool IsOnLineage(const StepRecord::Branch& own,
                 absl::Span<const StepRecord::Branch> branches);

// Returns whether `step` was saved on top of `ancestor`, directly or through
// other versions. Returns false for the ancestor itself, and for the version
// that it was folded into.
bool DescendsFrom(const StepRecord& step, const StepRecord& ancestor);

// Returns the owner that saved the version with this attempt, which is the step
// or one of its ancestors; 0 if it is not recorded.
uint64_t OwnerOf(const StepRecord& step, uint32_t attempt);

}  // namespace ckptdb::internal

#endif  // CKPTDB_SCHEMA_RECORDS_BRANCHES_H_
