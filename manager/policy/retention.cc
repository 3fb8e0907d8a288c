// SPDX-License-Identifier: Apache-2.0
#include "manager/policy/retention.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "db/base/option_checks.h"
#include "manager/policy/keep_rule.h"
#include "manager/policy/policy_checks.h"
#include "schema/bytes/annotate.h"
#include "schema/status.h"

namespace ckptdb::internal {
namespace {

// Returns why a step is kept regardless of the policy; empty if it is not.
std::string HeldBy(const RetentionOptions& options, const RetentionState& state,
                   const StepInfo& step) {
  // A reason specific to this step takes precedence over general ones.
  if (step.step == state.newest) return "the newest";
  const auto held = state.held.find(step.step);
  if (held != state.held.end()) return held->second;
  if (options.removal == RetentionOptions::Removal::kNever)
    return "no step is removed";
  if (options.removal == RetentionOptions::Removal::kEphemeralOnly &&
      !step.ephemeral) {
    return "only ephemeral steps are removed";
  }
  return "";
}

absl::string_view RemovalName(RetentionOptions::Removal removal) {
  switch (removal) {
    case RetentionOptions::Removal::kNever:
      return "never";
    case RetentionOptions::Removal::kEphemeralOnly:
      return "ephemeral_only";
    case RetentionOptions::Removal::kAllNonPermanent:
      break;
  }
  return "all_non_permanent";
}

// Decides about each of `steps`, which are the training's or those of other
// branches, and outlive the plan. Reasons are formatted on demand.
class Plan {
 public:
  Plan(const RetentionOptions& options, const RetentionState& state,
       absl::Span<const StepInfo> steps)
      : options_(options),
        state_(state),
        steps_(steps),
        ephemeral_(std::count_if(
            steps.begin(), steps.end(),
            [](const StepInfo& step) { return step.ephemeral; })) {
    // Policies decide only about permanent steps. These are copied only if
    // there are ephemeral ones as well, which most stores do not have.
    if (ephemeral_ > 0) {
      for (const StepInfo& step : steps) {
        if (!step.ephemeral) permanent_.push_back(step);
      }
    }
    answer_ = Ask(options.keep, ephemeral_ > 0 ? permanent_ : steps,
                  state.now_micros);
  }
  Plan(const Plan&) = delete;
  Plan& operator=(const Plan&) = delete;

  // Calls visit(at, place) for each step in ascending order: `place` is its
  // index among the permanent ones, or the number of ephemeral ones after it.
  template <typename Visit>
  void ForEach(Visit visit) const {
    size_t permanent = 0;
    int64_t newer = ephemeral_;
    for (size_t at = 0; at < steps_.size(); ++at) {
      visit(at,
            steps_[at].ephemeral ? static_cast<size_t>(--newer) : permanent++);
    }
  }

  const std::string& warning() const { return answer_.warning; }
  int64_t step(size_t at) const { return steps_[at].step; }

  bool Stays(size_t at, size_t place) const {
    const StepInfo& step = steps_[at];
    // Wanted is cheaper than HeldBy, which formats a text.
    return Wanted(step, place) || !HeldBy(options_, state_, step).empty();
  }

  RetentionDecision DecisionOf(size_t at, size_t place) const {
    const StepInfo& step = steps_[at];
    // A held step is kept regardless of the policy, so that is its reason.
    std::string held = HeldBy(options_, state_, step);
    if (!held.empty()) return {step.step, true, std::move(held)};
    const bool stays = Wanted(step, place);
    return {step.step, stays,
            absl::StrCat(Branch(step), step.ephemeral ? WhyEphemeral(stays)
                                                      : answer_.reason(place))};
  }

 private:
  absl::string_view Branch(const StepInfo& step) const {
    return state_.others.contains(step.step) ? "on another branch: " : "";
  }
  std::string WhyEphemeral(bool stays) const {
    return absl::StrCat("ephemeral, ", stays ? "" : "not ", "among the newest ",
                        options_.keep_ephemeral);
  }
  bool Wanted(const StepInfo& step, size_t place) const {
    return step.ephemeral
               ? static_cast<int64_t>(place) < options_.keep_ephemeral
               : answer_.keep[place];
  }

  const RetentionOptions& options_;
  const RetentionState& state_;
  const absl::Span<const StepInfo> steps_;
  const int64_t ephemeral_;
  std::vector<StepInfo> permanent_;
  KeepAnswer answer_;
};

// Calls visit(plan) for the training's steps, and then for those of other
// branches. Copies steps only if there are such branches.
template <typename Visit>
void ForEachPlan(const RetentionOptions& options, const RetentionState& state,
                 Visit visit) {
  if (state.others.empty()) return visit(Plan(options, state, state.steps));
  std::vector<StepInfo> own;
  std::vector<StepInfo> others;
  for (const StepInfo& step : state.steps) {
    (state.others.contains(step.step) ? others : own).push_back(step);
  }
  visit(Plan(options, state, own));
  visit(Plan(options, state, others));
}

// Returns the decisions about all steps, or only about those that are removed,
// in the order of the steps.
std::vector<RetentionDecision> DecideAll(const RetentionOptions& options,
                                         const RetentionState& state,
                                         bool include_kept,
                                         std::string* warning) {
  std::vector<RetentionDecision> decisions;
  if (include_kept) decisions.reserve(state.steps.size());
  ForEachPlan(options, state, [&](const Plan& plan) {
    if (warning != nullptr && warning->empty()) *warning = plan.warning();
    plan.ForEach([&](size_t at, size_t place) {
      if (!include_kept && plan.Stays(at, place)) return;
      decisions.push_back(plan.DecisionOf(at, place));
    });
  });
  std::sort(decisions.begin(), decisions.end(),
            [](const RetentionDecision& a, const RetentionDecision& b) {
              return a.step < b.step;
            });
  return decisions;
}

}  // namespace

std::string RetentionJson(const RetentionOptions& options) {
  return absl::StrCat("{\"keep\": ", KeepJson(options.keep),
                      ", \"keep_ephemeral\": ", options.keep_ephemeral,
                      ", \"removal\": \"", RemovalName(options.removal), "\"}");
}

absl::Status CheckRetention(const RetentionOptions& options) {
  CKPTDB_RETURN_IF_ERROR(Annotate(options.keep.status(), "retention.keep"));
  CKPTDB_RETURN_IF_ERROR(
      CheckEnumerator("retention.removal", options.removal,
                      RetentionOptions::Removal::kAllNonPermanent));
  return CheckAtLeast("retention", "keep_ephemeral", options.keep_ephemeral, 0);
}

std::vector<RetentionDecision> PlanRetention(const RetentionOptions& options,
                                             const RetentionState& state) {
  return DecideAll(options, state, /*include_kept=*/true, nullptr);
}

std::vector<RetentionDecision> PlanRemoval(const RetentionOptions& options,
                                           const RetentionState& state,
                                           std::string* warning) {
  if (warning != nullptr) warning->clear();
  return DecideAll(options, state, /*include_kept=*/false, warning);
}

std::optional<RetentionDecision> PlanStep(const RetentionOptions& options,
                                          const RetentionState& state,
                                          int64_t step) {
  std::optional<RetentionDecision> decision;
  ForEachPlan(options, state, [&](const Plan& plan) {
    plan.ForEach([&](size_t at, size_t place) {
      if (plan.step(at) == step) decision = plan.DecisionOf(at, place);
    });
  });
  return decision;
}

}  // namespace ckptdb::internal
