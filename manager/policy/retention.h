// SPDX-License-Identifier: Apache-2.0
// Decides which steps the next commit removes; internal to manager/.
//
//   RetentionOptions options{.keep = LatestN(3)};
//   for (const RetentionDecision& decision : PlanRemoval(options, state)) {
//     retire.push_back(decision.step);
//   }
//
// Pure functions of their arguments. One write batch publishes the new step and
// retires the removed ones, so that a crash cannot separate the two.
#ifndef CKPTDB_MANAGER_POLICY_RETENTION_H_
#define CKPTDB_MANAGER_POLICY_RETENTION_H_

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "manager/policies.h"

namespace ckptdb::internal {

// The key in a step's user metadata with the options that its save used.
inline constexpr char kRetention[] = "ckptdb.retention";

// Returns the options as a JSON object of the manager's configuration.
std::string RetentionJson(const RetentionOptions& options);

struct RetentionState {
  // All steps, ascending, including the one to be committed.
  std::vector<StepInfo> steps;
  // The steps among them that the newest does not descend from: the training
  // left them when it was reset. The policy decides about them separately, so
  // that they do not displace steps of the training.
  std::set<int64_t> others;
  // The step to be committed, or the one committed last.
  int64_t newest = 0;
  // Steps that must be kept, and why: pinned, being read, restored from.
  std::map<int64_t, std::string> held;
  int64_t now_micros = 0;  // since 1970, UTC
};

// The decision whether a step is kept, and why.
struct RetentionDecision {
  int64_t step = 0;
  bool stays = false;
  std::string reason;

  bool operator==(const RetentionDecision&) const = default;
};

// Returns InvalidArgument with the policy's error, or for a number below its
// bound.
absl::Status CheckRetention(const RetentionOptions& options);

// Returns one decision for each step, in order. The newest and the held steps
// are kept regardless of the options.
std::vector<RetentionDecision> PlanRetention(const RetentionOptions& options,
                                             const RetentionState& state);
// Returns PlanRetention's decisions about the removed steps only: formatting
// the reasons of the others would take longer than everything else. Stores the
// policy's warning in `warning` unless that is null.
std::vector<RetentionDecision> PlanRemoval(const RetentionOptions& options,
                                           const RetentionState& state,
                                           std::string* warning = nullptr);
// Returns PlanRetention's decision about a step; nothing if the step does not
// exist.
std::optional<RetentionDecision> PlanStep(const RetentionOptions& options,
                                          const RetentionState& state,
                                          int64_t step);

}  // namespace ckptdb::internal

#endif  // CKPTDB_MANAGER_POLICY_RETENTION_H_
