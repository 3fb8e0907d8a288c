#include "ckptdb/manager/retention.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "ckptdb/manager/policy/ask_whole.h"

namespace ckptdb {
namespace {

// What no policy may say otherwise; no when there is nothing.
Verdict Floor(const RetentionOptions& options, const RetentionState& state,
              const StepInfo& step) {
  if (step.step == state.newest) return {true, "the newest"};
  const auto held = state.held.find(step.step);
  if (held != state.held.end()) return {true, held->second};
  if (options.removal == Removal::kNever) return {true, "none is removed"};
  if (options.removal == Removal::kEphemeralOnly && !step.ephemeral) {
    return {true, "only ephemeral steps are removed"};
  }
  return {};
}

// What becomes of each step, without a word before it is asked for.
class Plan {
 public:
  Plan(const RetentionOptions& options, const RetentionState& state)
      : options_(options),
        state_(state),
        ephemeral_(std::count_if(
            state.steps.begin(), state.steps.end(),
            [](const StepInfo& step) { return step.ephemeral; })) {
    // A policy is asked about permanent steps alone; mostly that is all.
    if (ephemeral_ > 0) {
      for (const StepInfo& step : state.steps) {
        if (!step.ephemeral) permanent_.push_back(step);
      }
    }
    answer_ = internal::AskWhole(options.keep.get(),
                                 ephemeral_ > 0 ? permanent_ : state.steps,
                                 state.now_micros);
  }
  Plan(const Plan&) = delete;
  Plan& operator=(const Plan&) = delete;

  // Calls visit(at, place) for each step, by step: `place` is that among the
  // permanent ones, or how many ephemeral ones are after it.
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
    return Wanted(step, place) || Floor(options_, state_, step).yes;
  }

  Fate FateOf(size_t at, size_t place) const {
    const StepInfo& step = state_.steps[at];
    const Verdict floor = Floor(options_, state_, step);
    if (floor.yes) return {step.step, floor};
    const bool yes = Wanted(step, place);
    if (!step.ephemeral) return {step.step, {yes, answer_.why(place)}};
    return {step.step,
            {yes, absl::StrCat("ephemeral, ", yes ? "one" : "none",
                               " of the newest ", options_.keep_ephemeral)}};
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

std::vector<Fate> PlanRetention(const RetentionOptions& options,
                                const RetentionState& state) {
  const Plan plan(options, state);
  std::vector<Fate> fates;
  fates.reserve(state.steps.size());
  plan.ForEach([&](size_t at, size_t place) {
    fates.push_back(plan.FateOf(at, place));
  });
  return fates;
}

std::vector<Fate> PlanRemoval(const RetentionOptions& options,
                              const RetentionState& state,
                              std::string* warning) {
  const Plan plan(options, state);
  if (warning != nullptr) *warning = plan.warning();
  std::vector<Fate> fates;
  plan.ForEach([&](size_t at, size_t place) {
    if (!plan.Stays(at, place)) fates.push_back(plan.FateOf(at, place));
  });
  return fates;
}

std::optional<Fate> PlanFate(const RetentionOptions& options,
                             const RetentionState& state, int64_t step) {
  const Plan plan(options, state);
  std::optional<Fate> fate;
  plan.ForEach([&](size_t at, size_t place) {
    if (state.steps[at].step == step) fate = plan.FateOf(at, place);
  });
  return fate;
}

}  // namespace ckptdb
