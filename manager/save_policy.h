// When to save: policies over what is known before a step, and their
// composition.
//
//   CKPTDB_ASSIGN_OR_RETURN(auto every, FixedInterval(1000));
//   CKPTDB_ASSIGN_OR_RETURN(auto often, EveryNSeconds(600));
//   CKPTDB_ASSIGN_OR_RETURN(
//       SavePolicyPtr policy, AnySave({every, often, OnPreemption()}));
//   Verdict verdict = policy->Decide({.step = 2000, .now_micros = now});
//
// A policy is a pure function: the same context, the same answer. Policies are
// immutable, and may be asked from any thread; so must be a caller's own
// functions. What configures a policy is checked when it is made:
// InvalidArgument naming the value.
#ifndef CKPTDB_MANAGER_SAVE_POLICY_H_
#define CKPTDB_MANAGER_SAVE_POLICY_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "ckptdb/manager/step_info.h"
#include "ckptdb/manager/verdict.h"

namespace ckptdb {

struct SaveContext {
  int64_t step = 0;        // that may be saved
  int64_t now_micros = 0;  // since 1970, UTC
  // The newest step, committed or being saved.
  std::optional<StepInfo> last = std::nullopt;
  bool saving = false;     // a save is in progress
  bool preempted = false;  // this machine will soon be taken away
  Metrics metrics = {};    // of the step that may be saved
  // All committed steps, ascending, but those that are quarantined or given up.
  // It looks at the store, and is to be called only while the policy decides.
  // Default: none.
  std::function<std::vector<StepInfo>()> history = [] {
    return std::vector<StepInfo>();
  };
};

class SavePolicy {
 public:
  virtual ~SavePolicy() = default;
  virtual Verdict Decide(const SaveContext& context) const = 0;
};
using SavePolicyPtr = std::shared_ptr<const SavePolicy>;
using SaveFunction = std::function<bool(const SaveContext& context)>;

// Multiples of `steps`, which is at least 1.
absl::StatusOr<SavePolicyPtr> FixedInterval(int64_t steps);
// When a multiple of `steps`, which is at least 1, was reached since the newest
// step: for a trainer that counts several steps at a time and hits no multiple.
// Before any step is saved, step 0 and those from `steps` on.
absl::StatusOr<SavePolicyPtr> AtOrAfterEveryNSteps(int64_t steps);
// These steps, each at least 0.
absl::StatusOr<SavePolicyPtr> SpecificSteps(std::vector<int64_t> steps);
// When `seconds` have passed since the save of the newest step began, and when
// there is none. A clock that went back counts as passed. `seconds` is above 0.
absl::StatusOr<SavePolicyPtr> EveryNSeconds(double seconds);
// As soon as the save before is done, but not sooner than `seconds` after it
// began; at least 0.
absl::StatusOr<SavePolicyPtr> Continuous(double seconds);
// When there is no step yet.
SavePolicyPtr InitialSave();
SavePolicyPtr OnPreemption();
// Whatever the function says; `name` stands in the reasons.
absl::StatusOr<SavePolicyPtr> SaveIf(std::string name, SaveFunction function);

// Of at least one policy, none of them null.
absl::StatusOr<SavePolicyPtr> AnySave(std::vector<SavePolicyPtr> policies);
absl::StatusOr<SavePolicyPtr> AllSave(std::vector<SavePolicyPtr> policies);
absl::StatusOr<SavePolicyPtr> NotSave(SavePolicyPtr policy);

}  // namespace ckptdb

#endif  // CKPTDB_MANAGER_SAVE_POLICY_H_
