// Decides which steps of a store leave with a save, and why others stay;
// internal to manager/.
#ifndef CKPTDB_MANAGER_POLICY_RETIREMENT_H_
#define CKPTDB_MANAGER_POLICY_RETIREMENT_H_

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "ckptdb/db/base/mutex.h"
#include "ckptdb/db/store.h"
#include "ckptdb/manager/policies.h"
#include "ckptdb/manager/policy/retention.h"

namespace ckptdb::internal {

// Plans the removals of one manager. Thread-safe.
class Retirement {
 public:
  explicit Retirement(const RetentionOptions& options) : options_(options) {}

  struct Commit {
    StepInfo saved;
    int64_t now_micros = 0;
    // The step that it is saved on top of; unset: the newest.
    std::optional<Version> parent;
    // Steps that leave whatever the policy says, unless they are pinned.
    std::set<int64_t> abandoned;
    // The step that the training began from.
    std::optional<int64_t> source;
  };
  // Returns the steps that leave when it is committed.
  std::vector<RetentionDecision> Plan(const Store& store, const Commit& commit);

  // Returns what the last plan says of a step; none when it did not know it.
  std::optional<RetentionDecision> DecisionOf(int64_t step) const;

  // Returns the first warning of the policy; nothing after that, as it would be
  // said again with each save.
  std::string TakeWarning();

 private:
  // Reads what has changed in the store since the plan before, or all of it:
  // with ten thousand steps, reading each takes longer than everything else.
  void Refresh(const Store& store) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Returns false for a step that retention has nothing to do with.
  bool Note(const StepRecord& record) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Put(StepInfo info) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Remove(const std::set<int64_t>& steps)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const RetentionOptions options_;
  mutable Mutex mutex_;
  RetentionState state_ ABSL_GUARDED_BY(mutex_);
  std::set<int64_t> pinned_ ABSL_GUARDED_BY(mutex_);
  // The own branch of each step.
  std::map<int64_t, StepRecord::Branch> branches_ ABSL_GUARDED_BY(mutex_);
  // The position in the store's changes up to which the state is current.
  uint64_t seen_ ABSL_GUARDED_BY(mutex_) = 0;
  // Steps of which the plan before knew more than the store.
  std::set<int64_t> assumed_ ABSL_GUARDED_BY(mutex_);
  std::string warning_ ABSL_GUARDED_BY(mutex_);
  bool warned_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace ckptdb::internal

#endif  // CKPTDB_MANAGER_POLICY_RETIREMENT_H_
