// The versions that calls and readers of the owner's process use; internal to
// db/.
#ifndef CKPTDB_DB_STORE_VERSION_HOLDS_H_
#define CKPTDB_DB_STORE_VERSION_HOLDS_H_

#include <cstddef>
#include <memory>
#include <set>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "ckptdb/db/base/mutex.h"
#include "ckptdb/db/store/sweep_requests.h"
#include "ckptdb/schema/types.h"

namespace ckptdb::internal {

// Closing a store waits for the end of a call, and is refused as long as a
// reader is there.
enum class HeldBy { kCall, kReader };

// Counts the holds. No sweep removes what is held, whether it is of a step
// or not. Thread-safe: holds are taken by calls, let go of by any thread, and
// read by sweeps. The mutex is taken after that of StepCatalog, which holds
// versions while it looks at their records, and before that of SweepRequests.
class VersionHolds {
 public:
  explicit VersionHolds(SweepRequests* requests) : requests_(requests) {}
  VersionHolds(const VersionHolds&) = delete;
  VersionHolds& operator=(const VersionHolds&) = delete;

  // Holds these versions until the result is gone, which must be before this
  // object is.
  std::shared_ptr<void> Hold(std::vector<Version> versions,
                             HeldBy by = HeldBy::kCall);

  std::set<Version> versions() const;
  // StepReader and ChangeReader objects that have a hold.
  size_t readers() const;

  // A sweep has left these versions for their holds alone: the last hold of one
  // to go requests another sweep. It is requested now when one is not held any
  // more.
  void NoteGarbage(const std::vector<Version>& versions);

 private:
  void Release(const std::vector<Version>& versions, HeldBy by);
  // Returns whether garbage is not held any more.
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
