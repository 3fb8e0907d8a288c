#include "ckptdb/manager/save_policy.h"

#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "ckptdb/manager/policy/policy_checks.h"
#include "ckptdb/schema/status.h"

namespace ckptdb {
namespace {

using internal::CheckAtLeast;
using internal::CheckParts;
using internal::CheckPolicyName;
using internal::CheckSeconds;
using internal::HavePassed;

// A policy of one function.
class FunctionSavePolicy : public SavePolicy {
 public:
  using Decision = std::function<Verdict(const SaveContext&)>;
  explicit FunctionSavePolicy(Decision decide) : decide_(std::move(decide)) {}
  Verdict Decide(const SaveContext& context) const override {
    return decide_(context);
  }

 private:
  const Decision decide_;
};

SavePolicyPtr MakeSave(FunctionSavePolicy::Decision decide) {
  return std::make_shared<FunctionSavePolicy>(std::move(decide));
}

Verdict NotSooner(const SaveContext& context, double seconds) {
  if (!context.last.has_value()) return {true, "no step is saved yet"};
  const bool passed =
      HavePassed(context.last->time_micros, context.now_micros, seconds);
  return {passed, absl::StrCat(passed ? "" : "not yet ", seconds,
                               " seconds after step ", context.last->step)};
}

SavePolicyPtr ComposeSave(std::vector<SavePolicyPtr> policies,
                          Verdict (*combine)(const std::vector<Verdict>&)) {
  return MakeSave(
      [policies = std::move(policies), combine](const SaveContext& context) {
        std::vector<Verdict> verdicts;
        for (const SavePolicyPtr& policy : policies) {
          verdicts.push_back(policy->Decide(context));
        }
        return combine(verdicts);
      });
}

}  // namespace

absl::StatusOr<SavePolicyPtr> FixedInterval(int64_t steps) {
  CKPTDB_RETURN_IF_ERROR(CheckAtLeast("FixedInterval", "interval", steps, 1));
  return MakeSave([steps](const SaveContext& context) -> Verdict {
    const bool yes = context.step % steps == 0;
    return {yes, absl::StrCat("step ", context.step, " is ", yes ? "a" : "no",
                              " multiple of ", steps)};
  });
}

absl::StatusOr<SavePolicyPtr> AtOrAfterEveryNSteps(int64_t steps) {
  CKPTDB_RETURN_IF_ERROR(
      CheckAtLeast("AtOrAfterEveryNSteps", "interval", steps, 1));
  return MakeSave([steps](const SaveContext& context) -> Verdict {
    const int64_t last = context.last.has_value() ? context.last->step : 0;
    const int64_t multiple = context.step / steps * steps;
    const bool yes =
        multiple > last || (context.step == 0 && !context.last.has_value());
    return {yes,
            yes ? absl::StrCat("step ", context.step,
                               " is the first at or after ", multiple)
                : absl::StrCat("no multiple of ", steps, " since step ", last)};
  });
}

absl::StatusOr<SavePolicyPtr> SpecificSteps(std::vector<int64_t> steps) {
  for (const int64_t step : steps) {
    CKPTDB_RETURN_IF_ERROR(CheckAtLeast("SpecificSteps", "step", step, 0));
  }
  return MakeSave([all = std::set<int64_t>(steps.begin(), steps.end())](
                      const SaveContext& context) -> Verdict {
    const bool yes = all.contains(context.step);
    return {yes,
            absl::StrCat("step ", context.step, " is ", yes ? "one" : "none",
                         " of those that were asked for")};
  });
}

absl::StatusOr<SavePolicyPtr> EveryNSeconds(double seconds) {
  CKPTDB_RETURN_IF_ERROR(
      CheckSeconds("EveryNSeconds", seconds, /*may_be_zero=*/false));
  return MakeSave([seconds](const SaveContext& context) {
    return NotSooner(context, seconds);
  });
}

absl::StatusOr<SavePolicyPtr> Continuous(double seconds) {
  CKPTDB_RETURN_IF_ERROR(
      CheckSeconds("Continuous", seconds, /*may_be_zero=*/true));
  return MakeSave([seconds](const SaveContext& context) -> Verdict {
    if (context.saving) return {false, "a save is in progress"};
    return NotSooner(context, seconds);
  });
}

SavePolicyPtr InitialSave() {
  return MakeSave([](const SaveContext& context) -> Verdict {
    if (!context.last.has_value()) return {true, "no step is saved yet"};
    return {false, absl::StrCat("step ", context.last->step, " is saved")};
  });
}

SavePolicyPtr OnPreemption() {
  return MakeSave([](const SaveContext& context) -> Verdict {
    return {context.preempted,
            context.preempted ? "preempted" : "not preempted"};
  });
}

absl::StatusOr<SavePolicyPtr> SaveIf(std::string name, SaveFunction function) {
  CKPTDB_RETURN_IF_ERROR(CheckPolicyName("SaveIf", name));
  if (function == nullptr) {
    return absl::InvalidArgumentError(
        absl::StrCat("SaveIf: function ", name, " is null"));
  }
  return MakeSave([name = std::move(name), function = std::move(function)](
                      const SaveContext& context) -> Verdict {
    const bool yes = function(context);
    return {yes, absl::StrCat(name, " said ", yes ? "yes" : "no")};
  });
}

absl::StatusOr<SavePolicyPtr> AnySave(std::vector<SavePolicyPtr> policies) {
  CKPTDB_RETURN_IF_ERROR(CheckParts("AnySave", policies));
  return ComposeSave(std::move(policies), AnyOf);
}

absl::StatusOr<SavePolicyPtr> AllSave(std::vector<SavePolicyPtr> policies) {
  CKPTDB_RETURN_IF_ERROR(CheckParts("AllSave", policies));
  return ComposeSave(std::move(policies), AllOf);
}

absl::StatusOr<SavePolicyPtr> NotSave(SavePolicyPtr policy) {
  CKPTDB_RETURN_IF_ERROR(
      CheckParts("NotSave", std::vector<SavePolicyPtr>{policy}));
  return MakeSave([policy = std::move(policy)](const SaveContext& context) {
    return Negate(policy->Decide(context));
  });
}

}  // namespace ckptdb
