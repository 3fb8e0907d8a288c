// Which steps to keep: policies over all steps of a store, and their
// composition.
//
//   CKPTDB_ASSIGN_OR_RETURN(auto latest, LatestN(3));
//   CKPTDB_ASSIGN_OR_RETURN(auto best, BestN({.count = 2, .metric = "auc"}));
//   CKPTDB_ASSIGN_OR_RETURN(KeepPolicyPtr policy, AnyKeep({latest, best}));
//   KeepAnswer answer = policy->Ask(steps, now_micros);
//   if (!answer.keep[0]) gone = absl::StrCat("step 0 goes: ", answer.why(0));
//
// A policy is a pure function: the same steps and time, the same answer.
// Policies are immutable, and may be asked from any thread; so must be a
// caller's own functions. What configures a policy is checked when it is made:
// InvalidArgument naming the value.
//
// Policies only say what they would keep. What must never go, because it is
// pinned, read, needed by others or the newest, is not theirs to say: see
// manager/retention.h.
#ifndef CKPTDB_MANAGER_KEEP_POLICY_H_
#define CKPTDB_MANAGER_KEEP_POLICY_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "ckptdb/manager/step_info.h"
#include "ckptdb/manager/verdict.h"

namespace ckptdb {

// Reasons are written when they are asked for: with ten thousand steps they
// take longer than all the rest.
struct KeepAnswer {
  // Whether each step is kept. All steps are kept when the policy has answered
  // for another number of steps than it was asked about.
  std::vector<bool> keep;
  // Why the step at this place is kept or not; may be null. As long as the
  // policy and the steps are there; not thread-safe.
  std::function<std::string(size_t at)> why;
  // What is wrong with the steps rather than with one of them, for a log; empty
  // when nothing is.
  std::string warning = {};
};

class KeepPolicy {
 public:
  virtual ~KeepPolicy() = default;
  // About `steps`, which ascend. `now_micros`: since 1970.
  virtual KeepAnswer Ask(absl::Span<const StepInfo> steps,
                         int64_t now_micros) const = 0;
  // The same with all reasons.
  std::vector<Verdict> Decide(absl::Span<const StepInfo> steps,
                              int64_t now_micros) const;
};
using KeepPolicyPtr = std::shared_ptr<const KeepPolicy>;

// The order of metrics: NaN is worse than any number, no metric than NaN, and
// of equal ones the later step is the better.
enum class Better { kMax, kMin };
struct BestOptions {
  int64_t count = 1;  // at least 0
  std::string metric = {};
  Better better = Better::kMax;
  // Keep steps that have no such metric, beside the best. Metrics may come
  // late; where none ever comes all steps are kept, which BestN warns of.
  // Default: true.
  bool keep_without_metric = true;
};

using KeepPredicate = std::function<bool(const StepInfo& step)>;
// One answer for each step.
using KeepFunction = std::function<std::vector<bool>(
    absl::Span<const StepInfo> steps, int64_t now_micros)>;

KeepPolicyPtr KeepAll();
// The `count` highest steps; at least 0.
absl::StatusOr<KeepPolicyPtr> LatestN(int64_t count);
// The `count` highest of the steps that `policy` keeps; at least 0.
absl::StatusOr<KeepPolicyPtr> LatestOf(KeepPolicyPtr policy, int64_t count);
// These steps, each at least 0.
absl::StatusOr<KeepPolicyPtr> KeepSteps(std::vector<int64_t> steps);
// Multiples of `steps`, which is at least 1.
absl::StatusOr<KeepPolicyPtr> EveryNSteps(int64_t steps);
// For each multiple of `steps`, which is at least 1, the step nearest to it; of
// two the earlier. So also where no step is a multiple, one stays in about
// `steps` steps. The first step and the last always do: nothing is nearer to
// what is before and after them.
absl::StatusOr<KeepPolicyPtr> NearestToEveryNSteps(int64_t steps);
// The first step, and then each whose save began `seconds` or more after that
// of the last one that is kept so. A clock that went back counts as passed.
// `seconds` is above 0.
absl::StatusOr<KeepPolicyPtr> KeepEveryNSeconds(double seconds);
// Warns when a step other than the last has no such metric.
absl::StatusOr<KeepPolicyPtr> BestN(BestOptions options);
// The best by that order of steps as Store::Steps and Reader::Steps list them;
// a quarantined one is none. NotFound when no step has the metric.
absl::StatusOr<StepRecord> BestStep(absl::Span<const StepRecord> steps,
                                    const BestOptions& options);
// Steps whose save began no longer than `seconds` ago, at least 0; one from the
// future is not older.
absl::StatusOr<KeepPolicyPtr> TimeToLive(double seconds);
// Steps to which the predicate says yes; `name` stands in the reasons.
absl::StatusOr<KeepPolicyPtr> KeepIf(std::string name, KeepPredicate predicate);
// Whatever the function says of all steps. What it has no answer for is kept.
absl::StatusOr<KeepPolicyPtr> CustomKeep(std::string name,
                                         KeepFunction function);

// Of at least one policy, none of them null; each asked about all steps.
absl::StatusOr<KeepPolicyPtr> AnyKeep(std::vector<KeepPolicyPtr> policies);
absl::StatusOr<KeepPolicyPtr> AllKeep(std::vector<KeepPolicyPtr> policies);
absl::StatusOr<KeepPolicyPtr> NotKeep(KeepPolicyPtr policy);

}  // namespace ckptdb

#endif  // CKPTDB_MANAGER_KEEP_POLICY_H_
