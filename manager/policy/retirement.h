// SPDX-License-Identifier: Apache-2.0
// Decides which steps a save removes from a store, and why others are kept;
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
#include "db/base/mutex.h"
#include "db/store.h"
#include "manager/internal/step_shipping.h"
#include "manager/policies.h"
#include "manager/policy/retention.h"

namespace ckptdb::internal {

// Plans the removals of one manager. Thread-safe.
class Retirement {
 public:
  // `shipping` may be null, and outlives this object: at most `keep_unshipped`
  // steps, the newest, stay only because it has not shipped them.
  explicit Retirement(const RetentionOptions& options,
                      const StepShipping* shipping = nullptr,
                      int64_t keep_unshipped = 0)
      : options_(options),
        shipping_(shipping),
        keep_unshipped_(keep_unshipped) {}

  struct Commit {
    StepInfo saved;
    int64_t now_micros = 0;
    // The step that the commit is based on; unset: the newest.
    std::optional<Version> parent;
    // Steps that are removed regardless of the policy, unless they are pinned.
    std::set<int64_t> abandoned;
    // The step that the training began from.
    std::optional<int64_t> source;
  };
  // Returns the decisions about the steps that the commit removes.
  std::vector<RetentionDecision> Plan(const Store& store, const Commit& commit);

  // Returns whether this thread runs a policy for one of the calls above or
  // below, which hold a lock meanwhile: it must not make another.
  bool InPolicy() const;

  // Returns the last plan's decision about a step; nothing if the step was
  // unknown.
  std::optional<RetentionDecision> DecisionOf(int64_t step) const;

  // Returns the policy's first warning, once, as each save would repeat it.
  std::string TakeWarning();

 private:
  // Reads the changes in the store since the previous plan, or all steps: with
  // ten thousand steps, reading all takes longer than everything else.
  void Refresh(const Store& store) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Returns false for a step that retention ignores.
  bool Note(const StepRecord& record) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Put(StepInfo info) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Remove(const std::set<int64_t>& steps)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  void HoldUnshipped(const Store& store,
                     std::vector<RetentionDecision>* removed)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // The scope in which a thread runs a policy.
  class Asking;

  const RetentionOptions options_;
  const StepShipping* const shipping_;
  const int64_t keep_unshipped_;
  mutable Mutex mutex_;
  RetentionState state_ ABSL_GUARDED_BY(mutex_);
  std::set<int64_t> pinned_ ABSL_GUARDED_BY(mutex_);
  // Each step's own branch.
  std::map<int64_t, StepRecord::Branch> branches_ ABSL_GUARDED_BY(mutex_);
  // The position in the store's changes up to which the state is current.
  uint64_t seen_ ABSL_GUARDED_BY(mutex_) = 0;
  // Steps for which the previous plan assumed a successful commit.
  std::set<int64_t> assumed_ ABSL_GUARDED_BY(mutex_);
  std::string warning_ ABSL_GUARDED_BY(mutex_);
  bool warned_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace ckptdb::internal

#endif  // CKPTDB_MANAGER_POLICY_RETIREMENT_H_
