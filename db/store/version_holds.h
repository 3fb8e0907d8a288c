// SPDX-License-Identifier: Apache-2.0
// Counts the versions that calls and readers of the owner's process use;
// internal to db/.
#ifndef CKPTDB_DB_STORE_VERSION_HOLDS_H_
#define CKPTDB_DB_STORE_VERSION_HOLDS_H_

#include <cstddef>
#include <memory>
#include <set>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "db/base/mutex.h"
#include "db/store/sweep_requests.h"
#include "schema/types.h"

namespace ckptdb::internal {

// Close waits for the end of a call, and is refused while a reader exists.
enum class HeldBy { kCall, kReader };

// No sweep removes a held version, whether or not it is a step. Thread-safe:
// calls take holds, any thread releases them, sweeps read them. The mutex is
// acquired after that of StepCatalog, which holds versions while it reads their
// records, and before that of SweepRequests.
class VersionHolds {
 public:
  explicit VersionHolds(SweepRequests* requests) : requests_(requests) {}
  VersionHolds(const VersionHolds&) = delete;
  VersionHolds& operator=(const VersionHolds&) = delete;

  // Holds these versions until the result is destroyed, which must happen
  // before this object is.
  std::shared_ptr<void> Hold(std::vector<Version> versions,
                             HeldBy by = HeldBy::kCall);

  std::set<Version> versions() const;
  // Returns the number of StepReader and ChangeReader objects with a hold.
  size_t readers() const;

  // Reports that a sweep left these versions only because they are held.
  // Releasing the last hold on one of them requests another sweep; this call
  // requests one if some are already free.
  void NoteGarbage(const std::vector<Version>& versions);

 private:
  void Release(const std::vector<Version>& versions, HeldBy by);
  // Returns whether this frees garbage.
  bool RemoveHolds(const std::vector<Version>& versions)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  SweepRequests* const requests_;
  mutable Mutex mutex_;
  std::multiset<Version> holds_ ABSL_GUARDED_BY(mutex_);
  std::set<Version> garbage_ ABSL_GUARDED_BY(mutex_);
  size_t readers_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace ckptdb::internal

#endif  // CKPTDB_DB_STORE_VERSION_HOLDS_H_
