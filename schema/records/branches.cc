// SPDX-License-Identifier: Apache-2.0
#include "schema/records/branches.h"

#include <algorithm>
#include <iterator>

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
  const auto after = step.owners.upper_bound(attempt);
  return after == step.owners.begin() ? 0 : std::prev(after)->second;
}

}  // namespace ckptdb::internal
