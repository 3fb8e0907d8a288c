// SPDX-License-Identifier: Apache-2.0
// The rule of a SavePolicy; internal to manager/.
#ifndef CKPTDB_MANAGER_POLICY_SAVE_RULE_H_
#define CKPTDB_MANAGER_POLICY_SAVE_RULE_H_

#include <functional>

#include "absl/status/status.h"
#include "manager/policies.h"
#include "manager/policy/outlook.h"
#include "manager/policy/verdict.h"

namespace ckptdb::internal {

struct SaveRule {
  absl::Status status;
  // Both are called only while the status is OK. `outlook` is for the steps
  // after the context's, which `decide` has not saved.
  std::function<Verdict(const SavePolicy::Context& context)> decide;
  std::function<Outlook(const SavePolicy::Context& context)> outlook;
};

// Returns no without a policy, or with one that has an error, which becomes the
// reason.
Verdict Decide(const SavePolicy& policy, const SavePolicy::Context& context);
// Such a policy has no later step.
Outlook OutlookOf(const SavePolicy& policy, const SavePolicy::Context& context);

}  // namespace ckptdb::internal

#endif  // CKPTDB_MANAGER_POLICY_SAVE_RULE_H_
