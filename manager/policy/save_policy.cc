// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "manager/policies.h"
#include "manager/policy/outlook.h"
#include "manager/policy/policy_checks.h"
#include "manager/policy/save_rule.h"
#include "manager/policy/verdict.h"

namespace ckptdb {
namespace {

using internal::CheckAtLeast;
using internal::CheckSeconds;
using internal::kNoStep;
using internal::Outlook;
using internal::SaveRule;
using internal::Verdict;

// Makes a policy that calls `decide` and `outlook`, or carries `status` if that
// is an error.
SavePolicy MakeSave(
    absl::Status status,
    std::function<Verdict(const SavePolicy::Context&)> decide,
    std::function<Outlook(const SavePolicy::Context&)> outlook) {
  return SavePolicy(std::make_shared<const SaveRule>(
      SaveRule{std::move(status), std::move(decide), std::move(outlook)}));
}

// The outlook of a policy that may save the next step, whatever its number.
Outlook FromNextStep(const SavePolicy::Context& context) {
  return {internal::StepsAfter(context.step, 1)};
}

// The outlook of a policy that saves if no step is saved yet.
Outlook IfNothingIsSaved(const SavePolicy::Context& context) {
  return context.last.has_value() ? Outlook() : FromNextStep(context);
}

// Returns the newest step, of either kind even if context.last is the newest
// permanent one.
std::optional<int64_t> SavedStep(const SavePolicy::Context& context) {
  if (context.last.has_value()) return context.last->step;
  const std::vector<StepInfo> history = context.history();
  if (history.empty()) return std::nullopt;
  return history.back().step;
}

// The outlook of a policy that waits for a time after the newest step.
Outlook AtSomeTime(const SavePolicy::Context& context) {
  return internal::EitherOf(IfNothingIsSaved(context), {.timed = true});
}

// Returns whether `seconds` have passed since the save of the newest step
// began.
Verdict NotSooner(const SavePolicy::Context& context, double seconds) {
  if (!context.last.has_value()) return {true, "no step is saved yet"};
  const bool passed = internal::HavePassed(context.last->time_micros,
                                           context.now_micros, seconds);
  return {passed, internal::PassedReason(passed, context.last->time_micros,
                                         context.now_micros, seconds,
                                         "not yet ", context.last->step)};
}

// Evaluates both policies, as either's reason may become the composition's.
SavePolicy ComposeSave(absl::string_view name, const SavePolicy& left,
                       const SavePolicy& right,
                       Verdict (*combine)(const Verdict&, const Verdict&),
                       Outlook (*combine_outlooks)(const Outlook&,
                                                   const Outlook&)) {
  return MakeSave(
      internal::CheckOperands(name, left, right),
      [=](const SavePolicy::Context& context) {
        return combine(internal::Decide(left, context),
                       internal::Decide(right, context));
      },
      [=](const SavePolicy::Context& context) {
        return combine_outlooks(internal::OutlookOf(left, context),
                                internal::OutlookOf(right, context));
      });
}

}  // namespace

absl::Status SavePolicy::status() const {
  return has_value() ? rule_->status : absl::OkStatus();
}

Verdict internal::Decide(const SavePolicy& policy,
                         const SavePolicy::Context& context) {
  // Saves nothing without a policy, or with one that has an error, which
  // becomes the reason; Open rejects the latter.
  if (!policy.has_value()) return {false, "no policy is set"};
  if (policy.status().ok()) return policy.rule()->decide(context);
  return {false, std::string(policy.status().message())};
}

Outlook internal::OutlookOf(const SavePolicy& policy,
                            const SavePolicy::Context& context) {
  if (!policy.has_value() || !policy.status().ok()) return {};
  return policy.rule()->outlook(context);
}

SavePolicy SaveEveryNSteps(int64_t steps) {
  return MakeSave(
      CheckAtLeast("SaveEveryNSteps", "interval", steps, 1),
      [steps](const SavePolicy::Context& context) -> Verdict {
        const bool yes = context.step % steps == 0;
        return {yes, absl::StrCat("step ", context.step, " is ",
                                  yes ? "a" : "not a", " multiple of ", steps)};
      },
      [steps](const SavePolicy::Context& context) -> Outlook {
        return {internal::NextMultiple(context.step, steps)};
      });
}

SavePolicy SaveAtOrAfterEveryNSteps(int64_t steps) {
  return MakeSave(
      CheckAtLeast("SaveAtOrAfterEveryNSteps", "interval", steps, 1),
      [steps](const SavePolicy::Context& context) -> Verdict {
        // Without an earlier step counting begins at 0. No multiple exceeds
        // that at step 0, so step 0 is checked separately.
        const int64_t last = context.last.has_value() ? context.last->step : 0;
        const int64_t multiple = context.step / steps * steps;
        const bool yes =
            multiple > last || (context.step == 0 && !context.last.has_value());
        return {yes, yes ? absl::StrCat("step ", context.step,
                                        " is the first at or after ", multiple)
                         : absl::StrCat("no multiple of ", steps,
                                        " since step ", last)};
      },
      [steps](const SavePolicy::Context& context) -> Outlook {
        const int64_t last = context.last.has_value() ? context.last->step : 0;
        return {std::max(internal::NextMultiple(last, steps),
                         internal::StepsAfter(context.step, 1))};
      });
}

SavePolicy SaveAtSteps(const std::vector<int64_t>& steps) {
  const auto all =
      std::make_shared<const std::set<int64_t>>(steps.begin(), steps.end());
  return MakeSave(
      internal::CheckSteps("SaveAtSteps", steps),
      [all](const SavePolicy::Context& context) -> Verdict {
        const bool yes = all->contains(context.step);
        return {yes,
                absl::StrCat("step ", context.step, " is ", yes ? "" : "not ",
                             "one of the listed steps")};
      },
      [all](const SavePolicy::Context& context) -> Outlook {
        const auto next = all->upper_bound(context.step);
        return {next == all->end() ? kNoStep : *next};
      });
}

SavePolicy SaveEveryNSeconds(double seconds) {
  return MakeSave(
      CheckSeconds("SaveEveryNSeconds", seconds, /*may_be_zero=*/false),
      [seconds](const SavePolicy::Context& context) {
        return NotSooner(context, seconds);
      },
      AtSomeTime);
}

SavePolicy SaveContinuously(double seconds) {
  return MakeSave(
      CheckSeconds("SaveContinuously", seconds, /*may_be_zero=*/true),
      [seconds](const SavePolicy::Context& context) -> Verdict {
        // The interval could end while the previous save is still in progress.
        if (context.saving) return {false, "a save is in progress"};
        return NotSooner(context, seconds);
      },
      AtSomeTime);
}

SavePolicy SaveInitially() {
  return MakeSave(
      absl::OkStatus(),
      [](const SavePolicy::Context& context) -> Verdict {
        const std::optional<int64_t> saved = SavedStep(context);
        if (!saved.has_value()) return {true, "no step is saved yet"};
        return {false, absl::StrCat("step ", *saved, " is saved")};
      },
      [](const SavePolicy::Context& context) -> Outlook {
        return SavedStep(context).has_value() ? Outlook()
                                              : FromNextStep(context);
      });
}

SavePolicy SaveOnPreemption() {
  return MakeSave(
      absl::OkStatus(),
      [](const SavePolicy::Context& context) -> Verdict {
        return {context.preempted,
                context.preempted ? "preempted" : "not preempted"};
      },
      [](const SavePolicy::Context&) -> Outlook { return {.timed = true}; });
}

SavePolicy SaveIf(
    std::string name,
    std::function<bool(const SavePolicy::Context& context)> function) {
  absl::Status status = internal::CheckFunction("SaveIf", name, function);
  return MakeSave(
      std::move(status),
      [name = std::move(name), function = std::move(function)](
          const SavePolicy::Context& context) -> Verdict {
        const bool yes = internal::CallNamed("SaveIf", name,
                                             [&] { return function(context); });
        return {yes, absl::StrCat(name, " returned ", yes ? "true" : "false")};
      },
      FromNextStep);
}

SavePolicy operator|(const SavePolicy& left, const SavePolicy& right) {
  return ComposeSave("operator|", left, right, internal::AnyOf,
                     internal::EitherOf);
}

SavePolicy operator&(const SavePolicy& left, const SavePolicy& right) {
  return ComposeSave("operator&", left, right, internal::AllOf,
                     internal::BothOf);
}

SavePolicy operator!(const SavePolicy& policy) {
  return MakeSave(
      internal::CheckOperand("operator!", policy),
      [policy](const SavePolicy::Context& context) {
        return internal::Negate(internal::Decide(policy, context));
      },
      FromNextStep);
}

}  // namespace ckptdb
