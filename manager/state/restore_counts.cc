// SPDX-License-Identifier: Apache-2.0
#include "manager/state/restore_counts.h"

namespace ckptdb::internal {

// Never destroyed, because a manager in a global variable may outlive it.
RestoreCounts& RestoreCounts::Global() {
  static auto* const kCounts = new RestoreCounts();
  return *kCounts;
}

void RestoreCounts::Watch(const ChangeTracker* tracker) {
  const MutexLock lock(&mutex_);
  ++watched_[tracker].watchers;
}

void RestoreCounts::Unwatch(const ChangeTracker* tracker) {
  const MutexLock lock(&mutex_);
  const auto found = watched_.find(tracker);
  if (found != watched_.end() && --found->second.watchers == 0) {
    watched_.erase(found);
  }
}

void RestoreCounts::Add(const ChangeTracker* tracker) {
  const MutexLock lock(&mutex_);
  const auto found = watched_.find(tracker);
  if (found != watched_.end()) ++found->second.restores;
}

uint64_t RestoreCounts::Count(const ChangeTracker* tracker) const {
  const MutexLock lock(&mutex_);
  const auto found = watched_.find(tracker);
  return found == watched_.end() ? 0 : found->second.restores;
}

}  // namespace ckptdb::internal
