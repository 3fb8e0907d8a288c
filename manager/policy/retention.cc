#include "ckptdb/manager/policy/retention.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "ckptdb/db/base/option_checks.h"
#include "ckptdb/manager/policy/keep_rule.h"
#include "ckptdb/manager/policy/policy_checks.h"
#include "ckptdb/schema/bytes/annotate.h"
#include "ckptdb/schema/status.h"

namespace ckptdb::internal {
namespace {

// Returns why a step stays whatever the policy says; empty when nothing holds
// it.
std::string HeldBy(const RetentionOptions& options, const RetentionState& state,
                   const StepInfo& step) {
  // A reason that is particular to this step comes before those that hold for
  // many.
  if (step.step == state.newest) return "the newest";
  const auto held = state.held.find(step.step);
  if (held != state.held.end()) return held->second;
  if (options.removal == RetentionOptions::Removal::kNever)
    return "none is removed";
  if (options.removal == RetentionOptions::Removal::kEphemeralOnly &&
      !step.ephemeral) {
    return "only ephemeral steps are removed";
  }
  return "";
}

// Decides about each step. Reasons are written when they are asked for.
class Plan {
 public:
  Plan(const RetentionOptions& options, const RetentionState& state)
      : options_(options),
        state_(state),
        ephemeral_(std::count_if(
            state.steps.begin(), state.steps.end(),
            [](const StepInfo& step) { return step.ephemeral; })) {
    // A policy is asked about permanent steps alone. They are copied only where
    // there are ephemeral ones as well, which most stores do not have.
    if (ephemeral_ > 0) {
      for (const StepInfo& step : state.steps) {
        if (!step.ephemeral) permanent_.push_back(step);
      }
    }
    answer_ = Ask(options.keep, ephemeral_ > 0 ? permanent_ : state.steps,
                  state.now_micros);
  }
  Plan(const Plan&) = delete;
  Plan& operator=(const Plan&) = delete;

  // Calls visit(at, place) for each step in ascending order: `place` is its
  // place among the permanent ones, or the number of ephemeral ones after it.
  template <typename Visit>
  void ForEach(Visit visit) const {
    size_t permanent = 0;
    int64_t newer = ephemeral_;
    for (size_t at = 0; at < state_.steps.size(); ++at) {
      visit(at, state_.steps[at].ephemeral ? static_cast<size_t>(--newer)
                                           : permanent++);
    }
  }

  const std::string& warning() const { return answer_.warning; }

  bool Stays(size_t at, size_t place) const {
    const StepInfo& step = state_.steps[at];
    // Wanted is asked first, as HeldBy writes a text.
    return Wanted(step, place) || !HeldBy(options_, state_, step).empty();
  }

  RetentionDecision DecisionOf(size_t at, size_t place) const {
    const StepInfo& step = state_.steps[at];
    // A step that is held stays whatever the policy answers, so that is its
    // reason.
    std::string held = HeldBy(options_, state_, step);
    if (!held.empty()) return {step.step, true, std::move(held)};
    const bool stays = Wanted(step, place);
    if (!step.ephemeral) return {step.step, stays, answer_.reason(place)};
    return {step.step, stays,
            absl::StrCat("ephemeral, ", stays ? "" : "not ",
                         "among the newest ", options_.keep_ephemeral)};
  }

 private:
  bool Wanted(const StepInfo& step, size_t place) const {
    return step.ephemeral
               ? static_cast<int64_t>(place) < options_.keep_ephemeral
               : answer_.keep[place];
  }

  const RetentionOptions& options_;
  const RetentionState& state_;
  const int64_t ephemeral_;
  std::vector<StepInfo> permanent_;
  KeepAnswer answer_;
};

}  // namespace

absl::Status CheckRetention(const RetentionOptions& options) {
  CKPTDB_RETURN_IF_ERROR(Annotate(options.keep.status(), "retention.keep"));
  CKPTDB_RETURN_IF_ERROR(
      CheckEnumerator("retention.removal", options.removal,
                      RetentionOptions::Removal::kAllNonPermanent));
  return CheckAtLeast("retention", "keep_ephemeral", options.keep_ephemeral, 0);
}

std::vector<RetentionDecision> PlanRetention(const RetentionOptions& options,
                                             const RetentionState& state) {
  const Plan plan(options, state);
  std::vector<RetentionDecision> decisions;
  decisions.reserve(state.steps.size());
  plan.ForEach([&](size_t at, size_t place) {
    decisions.push_back(plan.DecisionOf(at, place));
  });
  return decisions;
}

std::vector<RetentionDecision> PlanRemoval(const RetentionOptions& options,
                                           const RetentionState& state,
                                           std::string* warning) {
  const Plan plan(options, state);
  if (warning != nullptr) *warning = plan.warning();
  std::vector<RetentionDecision> decisions;
  plan.ForEach([&](size_t at, size_t place) {
    if (plan.Stays(at, place)) return;
    decisions.push_back(plan.DecisionOf(at, place));
  });
  return decisions;
}

std::optional<RetentionDecision> PlanStep(const RetentionOptions& options,
                                          const RetentionState& state,
                                          int64_t step) {
  const Plan plan(options, state);
  std::optional<RetentionDecision> decision;
  plan.ForEach([&](size_t at, size_t place) {
    if (state.steps[at].step == step) decision = plan.DecisionOf(at, place);
  });
  return decision;
}

}  // namespace ckptdb::internal
