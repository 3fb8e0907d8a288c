// SPDX-License-Identifier: Apache-2.0
// Decides which steps a step descends from, using the branches and owners in
// their records.
#ifndef CKPTDB_SCHEMA_RECORDS_BRANCHES_H_
#define CKPTDB_SCHEMA_RECORDS_BRANCHES_H_

#include <cstdint>
#include <map>

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

// Returns the owner that began `attempt`: the last entry of `owners`, which
// maps first attempts to owners, at or before it. Returns 0 if it is unknown.
uint64_t OwnerOf(const std::map<uint32_t, uint64_t>& owners, uint32_t attempt);

// The owner of attempts that another copy of the store began, and whose steps
// this copy lacks.
inline constexpr uint64_t kForeignOwner = ~uint64_t{0};

// Records that `owner` begins all attempts from `first` on. Drops the oldest
// entries beyond kMaxOwners.
void AddOwner(uint32_t first, uint64_t owner,
              std::map<uint32_t, uint64_t>* owners);

}  // namespace ckptdb::internal

#endif  // CKPTDB_SCHEMA_RECORDS_BRANCHES_H_
