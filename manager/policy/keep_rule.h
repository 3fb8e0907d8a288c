// SPDX-License-Identifier: Apache-2.0
// The rule of a KeepPolicy; internal to manager/.
#ifndef CKPTDB_MANAGER_POLICY_KEEP_RULE_H_
#define CKPTDB_MANAGER_POLICY_KEEP_RULE_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "manager/policies.h"

namespace ckptdb::internal {

// Reasons are formatted on demand: for ten thousand steps they would take
// longer than everything else.
struct KeepAnswer {
  // Whether each step is kept, in the order of the steps.
  std::vector<bool> keep;
  // Returns why the step at this index is kept or not. Valid while the policy
  // and the steps exist; not thread-safe.
  std::function<std::string(size_t at)> reason;
  // A warning for the log about all the steps; empty without one.
  std::string warning = {};
};

struct KeepRule {
  using Answer = std::function<KeepAnswer(absl::Span<const StepInfo> steps,
                                          int64_t now_micros)>;

  absl::Status status;
  // The policy in the manager's JSON configuration. That has no functions, so
  // {"keep_if": "its name"} cannot be read, nor "too_long", which replaces more
  // than 4 KiB.
  std::string json;
  // Called only while the status is OK.
  Answer answer;
};

// Returns a policy with this rule; `status` is its error unless OK.
KeepPolicy MakeKeep(absl::Status status, std::string json,
                    KeepRule::Answer answer);

// Returns the policy's JSON; "keep_all" without a policy.
std::string KeepJson(const KeepPolicy& policy);
// Returns {"key": value}. `value` is JSON.
std::string KeyedJson(absl::string_view key, absl::string_view value);
// Returns the text as JSON.
std::string TextJson(absl::string_view text);

// Applies the policy to `steps`, which ascend, at a time since 1970, UTC. Keeps
// all of them without a policy, or with one that has an error, which becomes
// the reason.
KeepAnswer Ask(const KeepPolicy& policy, absl::Span<const StepInfo> steps,
               int64_t now_micros);

}  // namespace ckptdb::internal

#endif  // CKPTDB_MANAGER_POLICY_KEEP_RULE_H_
