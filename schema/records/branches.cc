// SPDX-License-Identifier: Apache-2.0
#include "schema/records/branches.h"

#include <algorithm>
#include <iterator>

#include "schema/bytes/limits.h"

namespace ckptdb::internal {

// A descendant has its ancestor's branch among its own, and has continued it at
// least as far.
bool IsOnLineage(const StepRecord::Branch& own,
                 absl::Span<const StepRecord::Branch> branches) {
  const auto same =
      std::lower_bound(branches.begin(), branches.end(), own.first,
                       [](const StepRecord::Branch& branch, uint32_t first) {
                         return branch.first < first;
                       });
  return same != branches.end() && same->first == own.first &&
         same->last >= own.last;
}

bool DescendsFrom(const StepRecord& step, const StepRecord& ancestor) {
  return step.branches != ancestor.branches &&
         IsOnLineage(ancestor.branches.back(), step.branches);
}

uint64_t OwnerOf(const StepRecord& step, uint32_t attempt) {
  return OwnerOf(step.owners, attempt);
}

uint64_t OwnerOf(const std::map<uint32_t, uint64_t>& owners, uint32_t attempt) {
  const auto after = owners.upper_bound(attempt);
  return after == owners.begin() ? 0 : std::prev(after)->second;
}

void AddOwner(uint32_t first, uint64_t owner,
              std::map<uint32_t, uint64_t>* owners) {
  owners->erase(owners->lower_bound(first), owners->end());
  owners->emplace(first, owner);
  if (owners->size() > kMaxOwners) owners->erase(owners->begin());
}

}  // namespace ckptdb::internal
