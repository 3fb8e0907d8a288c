// SPDX-License-Identifier: Apache-2.0
#include "db/store/version_holds.h"

#include <utility>

namespace ckptdb::internal {

std::shared_ptr<void> VersionHolds::Hold(std::vector<Version> versions,
                                         HeldBy by) {
  {
    const MutexLock lock(&mutex_);
    // A multiset: a version that several calls hold is free when the last of
    // them ends.
    holds_.insert(versions.begin(), versions.end());
    if (by == HeldBy::kReader) ++readers_;
  }
  return {nullptr, [this, by, versions = std::move(versions)](void*) {
            Release(versions, by);
          }};
}

std::set<Version> VersionHolds::versions() const {
  const MutexLock lock(&mutex_);
  return {holds_.begin(), holds_.end()};
}

size_t VersionHolds::readers() const {
  const MutexLock lock(&mutex_);
  return readers_;
}

void VersionHolds::NoteGarbage(const std::vector<Version>& versions) {
  bool free = false;
  {
    const MutexLock lock(&mutex_);
    for (const Version& version : versions) {
      if (holds_.contains(version)) {
        garbage_.insert(version);
      } else {
        // The hold ended after the sweep had read the holds, and no sweep was
        // requested since.
        free = true;
      }
    }
  }
  if (free) requests_->Request();
}

void VersionHolds::Release(const std::vector<Version>& versions, HeldBy by) {
  // Held to the end, because the store may be destroyed once the last reader
  // is.
  const MutexLock lock(&mutex_);
  if (by == HeldBy::kReader) --readers_;
  if (RemoveHolds(versions)) requests_->Request();
}

bool VersionHolds::RemoveHolds(const std::vector<Version>& versions) {
  bool garbage = false;
  for (const Version& version : versions) {
    // Erases one hold of the version, not all of them.
    holds_.erase(holds_.find(version));
    if (holds_.contains(version)) continue;
    garbage = garbage_.erase(version) > 0 || garbage;
  }
  return garbage;
}

}  // namespace ckptdb::internal
