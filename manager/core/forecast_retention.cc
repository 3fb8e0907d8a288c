// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdint>
#include <limits>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "manager/manager_options.h"
#include "manager/policies.h"
#include "manager/policy/retention.h"
#include "manager/policy/step_info.h"
#include "manager/results.h"
#include "manager/save/save_publisher.h"
#include "schema/records/branches.h"
#include "schema/status.h"

namespace ckptdb {
namespace {

using internal::RetentionDecision;
using internal::RetentionState;

absl::StatusOr<RetentionOptions> RecordedRetention(const StepRecord& latest) {
  const auto recorded = latest.user_metadata.find(internal::kRetention);
  if (recorded == latest.user_metadata.end()) {
    return absl::NotFoundError(
        absl::StrCat("step ", latest.version.step, " recorded no retention"));
  }
  ManagerOptions options;
  const absl::Status read = ReadManagerConfig(recorded->second, &options);
  if (read.ok()) return options.retention;
  return absl::UnimplementedError(absl::StrCat(
      "the retention calls functions of the trainer, or is too long to be "
      "recorded: ",
      recorded->second));
}

// The state at the latest step's commit.
RetentionState StateAt(absl::Span<const StepRecord> steps,
                       const StepRecord& latest) {
  RetentionState state;
  state.newest = latest.version.step;
  state.now_micros = latest.committed_at_micros;
  for (const StepRecord& record : steps) {
    if (record.quarantined) continue;
    const int64_t step = record.version.step;
    state.steps.push_back(internal::StepInfoOf(record));
    if (record.pinned) state.held[step] = "pinned";
    if (step > state.newest ||
        (step < state.newest &&
         !internal::IsOnLineage(record.branches.back(), latest.branches))) {
      state.others.insert(step);
    }
  }
  return state;
}

// The saves that follow: as far apart as the last two, with metrics that are
// worse than all others.
class NextSaves {
 public:
  explicit NextSaves(const RetentionState& state) {
    next_.step = state.newest;
    next_.time_micros = state.now_micros;
    const StepInfo* before = nullptr;
    const StepInfo* last = nullptr;
    for (const StepInfo& info : state.steps) {
      for (const auto& [name, value] : info.metrics) {
        next_.metrics[name] = std::numeric_limits<double>::quiet_NaN();
      }
      if (info.ephemeral || state.others.contains(info.step)) continue;
      before = std::exchange(last, &info);
    }
    if (before == nullptr) return;
    has_interval_ = true;
    steps_ = std::max<int64_t>(1, last->step - before->step);
    micros_ = std::max<int64_t>(0, last->time_micros - before->time_micros);
    next_.step = last->step;
    // The newest may be ephemeral.
    while (next_.step + steps_ <= state.newest) next_.step += steps_;
  }

  bool has_interval() const { return has_interval_; }
  const StepInfo& Next() {
    next_.step += steps_;
    next_.time_micros += micros_;
    return next_;
  }

 private:
  StepInfo next_;
  bool has_interval_ = false;
  int64_t steps_ = 1;
  int64_t micros_ = 0;
};

void Commit(const StepInfo& saved, RetentionState* state) {
  const auto at = std::lower_bound(
      state->steps.begin(), state->steps.end(), saved.step,
      [](const StepInfo& info, int64_t step) { return info.step < step; });
  if (at != state->steps.end() && at->step == saved.step) {
    *at = saved;
  } else {
    state->steps.insert(at, saved);
  }
  state->others.erase(saved.step);
  state->newest = saved.step;
  state->now_micros = saved.time_micros;
}

std::string Ordinal(int64_t number) {
  constexpr const char* kSuffixes[] = {"th", "st", "nd", "rd"};
  const bool teen = number % 100 >= 11 && number % 100 <= 13;
  const int64_t last = number % 10;
  return absl::StrCat(number, kSuffixes[teen || last > 3 ? 0 : last]);
}

// Saves until one removes the step, and describes that one.
std::string WhatRemoves(int64_t step, const RetentionOptions& options,
                        RetentionState state) {
  constexpr int64_t kMaxSaves = 256;
  NextSaves saves(state);
  for (int64_t count = 1; count <= kMaxSaves; ++count) {
    Commit(saves.Next(), &state);
    const std::vector<RetentionDecision> removed =
        internal::PlanRemoval(options, state);
    std::set<int64_t> gone;
    for (const RetentionDecision& decision : removed) {
      if (decision.step == step) {
        const std::string save =
            saves.has_interval()
                ? absl::StrCat("the save of step ", state.newest, ", the ",
                               Ordinal(count),
                               " from now, if they continue as "
                               "before")
                : absl::StrCat("the ", Ordinal(count),
                               " permanent save from now");
        return absl::StrCat(save, ": ", decision.reason);
      }
      gone.insert(decision.step);
    }
    std::erase_if(state.steps, [&](const StepInfo& info) {
      return gone.contains(info.step);
    });
  }
  return absl::StrCat("none of the next ", kMaxSaves,
                      " saves, unless their metrics are better");
}

}  // namespace

absl::StatusOr<StepExplanation> ForecastRetention(
    absl::Span<const StepRecord> steps, const StepRecord& latest,
    int64_t step) {
  CKPTDB_ASSIGN_OR_RETURN(const RetentionOptions options,
                          RecordedRetention(latest));
  RetentionState state = StateAt(steps, latest);
  const auto now = internal::PlanStep(options, state, step);
  if (!now.has_value()) {
    return absl::NotFoundError(
        absl::StrCat("step ", step, " does not exist, or is quarantined"));
  }
  StepExplanation explanation;
  for (const StepRecord& record : steps) {
    const auto saved = record.user_metadata.find(internal::kSavedBecause);
    if (record.version.step != step || saved == record.user_metadata.end()) {
      continue;
    }
    explanation.saved = saved->second;
  }
  if (now->stays) explanation.kept = now->reason;
  explanation.removed = WhatRemoves(step, options, std::move(state));
  return explanation;
}

}  // namespace ckptdb
