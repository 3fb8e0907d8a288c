// The rule of a KeepPolicy; internal to manager/.
#ifndef CKPTDB_MANAGER_POLICY_KEEP_RULE_H_
#define CKPTDB_MANAGER_POLICY_KEEP_RULE_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "ckptdb/manager/policies.h"

namespace ckptdb::internal {

// Reasons are written when they are asked for: with ten thousand steps they
// take longer than everything else.
struct KeepAnswer {
  // Says of each step whether it is kept; there are as many as steps.
  std::vector<bool> keep;
  // Returns why the step at this place is kept or not. Valid as long as the
  // policy and the steps exist; not thread-safe.
  std::function<std::string(size_t at)> reason;
  // A warning about the steps rather than about one of them, for a log; empty
  // if there is none.
  std::string warning = {};
};

struct KeepRule {
  using Answer = std::function<KeepAnswer(absl::Span<const StepInfo> steps,
                                          int64_t now_micros)>;

  absl::Status status;
  // Called only while the status is OK.
  Answer answer;
};

// A policy of this rule, which has this error unless it is OK.
KeepPolicy MakeKeep(absl::Status status, KeepRule::Answer answer);

// Asks about `steps`, which ascend, at a time since 1970, UTC. All of them are
// kept when there is no policy, or one with an error, which is the reason.
KeepAnswer Ask(const KeepPolicy& policy, absl::Span<const StepInfo> steps,
               int64_t now_micros);

}  // namespace ckptdb::internal

#endif  // CKPTDB_MANAGER_POLICY_KEEP_RULE_H_
