#include "ckptdb/manager/retention.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace ckptdb {
namespace {

std::vector<Verdict> AskPolicy(const RetentionOptions& options,
                               const RetentionState& state) {
  std::vector<StepInfo> permanent;
  for (const StepInfo& step : state.steps) {
    if (!step.ephemeral) permanent.push_back(step);
  }
  return options.keep->Decide(permanent, state.now_micros);
}

// `newer`: how many ephemeral steps are after it.
Verdict OfEphemeral(const RetentionOptions& options, int64_t newer) {
  const bool yes = newer < options.keep_ephemeral;
  return {yes, absl::StrCat("ephemeral, ", yes ? "one" : "none",
                            " of the newest ", options.keep_ephemeral)};
}

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

}  // namespace

std::vector<Fate> PlanRetention(const RetentionOptions& options,
                                const RetentionState& state) {
  const std::vector<Verdict> permanent = AskPolicy(options, state);
  int64_t newer =
      std::count_if(state.steps.begin(), state.steps.end(),
                    [](const StepInfo& step) { return step.ephemeral; });
  size_t asked = 0;
  std::vector<Fate> fates;
  fates.reserve(state.steps.size());
  for (const StepInfo& step : state.steps) {
    Verdict verdict =
        step.ephemeral ? OfEphemeral(options, --newer) : permanent[asked++];
    const Verdict floor = Floor(options, state, step);
    fates.push_back({step.step, floor.yes ? floor : verdict});
  }
  return fates;
}

}  // namespace ckptdb
