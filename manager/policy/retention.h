// Decides which steps leave the store with the next commit; internal to
// manager/.
//
//   RetentionOptions options{.keep = LatestN(3)};
//   for (const RetentionDecision& decision : PlanRemoval(options, state)) {
//     retire.push_back(decision.step);
//   }
//
// It is a pure function of its arguments. The write batch that publishes the
// new step retires the steps that it removes, so that no crash comes between.
#ifndef CKPTDB_MANAGER_POLICY_RETENTION_H_
#define CKPTDB_MANAGER_POLICY_RETENTION_H_

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "ckptdb/manager/policies.h"

namespace ckptdb::internal {

struct RetentionState {
  // All steps, ascending, with the one that is about to be committed.
  std::vector<StepInfo> steps;
  // Those of them that the newest does not descend from: they were left when
  // the training went back. The policy is asked about them apart from the
  // others, so that they take no place of a step of the training.
  std::set<int64_t> others;
  // The step that is about to be committed, or was committed last.
  int64_t newest = 0;
  // Steps that must stay, and why: pinned, being read, restored from.
  std::map<int64_t, std::string> held;
  int64_t now_micros = 0;  // since 1970, UTC
};

// The decision whether a step stays, and why.
struct RetentionDecision {
  int64_t step = 0;
  bool stays = false;
  std::string reason;

  bool operator==(const RetentionDecision&) const = default;
};

// Returns InvalidArgument with the error of the policy, or for a number below
// its bound.
absl::Status CheckRetention(const RetentionOptions& options);

// Returns one decision for each step, in their order. The newest and the held
// ones stay whatever the options say.
std::vector<RetentionDecision> PlanRetention(const RetentionOptions& options,
                                             const RetentionState& state);
// The decisions of PlanRetention about the steps that go. Reasons take longer
// than everything else: those of steps that stay are not written. `warning`:
// what the policy warns of, unless it is null.
std::vector<RetentionDecision> PlanRemoval(const RetentionOptions& options,
                                           const RetentionState& state,
                                           std::string* warning = nullptr);
// The decision of PlanRetention about a step; none when there is no such step.
std::optional<RetentionDecision> PlanStep(const RetentionOptions& options,
                                          const RetentionState& state,
                                          int64_t step);

}  // namespace ckptdb::internal

#endif  // CKPTDB_MANAGER_POLICY_RETENTION_H_
