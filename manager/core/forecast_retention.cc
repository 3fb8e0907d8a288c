// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdint>
#include <limits>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
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

// The distance between permanent saves, if the store's records show it.
struct Pace {
  std::optional<int64_t> steps;
  std::optional<int64_t> micros;
};

// The save before another one. Its record may have been removed since.
struct EarlierSave {
  std::optional<int64_t> step;
  const StepRecord* record = nullptr;
};

EarlierSave SaveBefore(absl::Span<const StepRecord> steps,
                       const StepRecord& save) {
  EarlierSave before;
  if (save.has_parent) before.step = save.parent.step;
  for (const StepRecord& record : steps) {
    // The store numbers its saves by attempts.
    const bool found = save.has_parent
                           ? record.version.step == save.parent.step
                           : record.version.attempt + 1 == save.version.attempt;
    if (!found || record.version.step >= save.version.step) continue;
    before = {record.version.step, &record};
  }
  return before;
}

// Counts the ephemeral steps of the training after a step.
int64_t EphemeralAfter(int64_t step, const RetentionState& state) {
  return std::count_if(state.steps.begin(), state.steps.end(),
                       [&](const StepInfo& info) {
                         return info.ephemeral && info.step > step &&
                                !state.others.contains(info.step);
                       });
}

// Returns the distance between the last two permanent saves. Steps that
// retention removed in between must not make the distance look longer, so this
// follows the records' parents, and returns nothing if a parent is missing.
Pace PaceOf(absl::Span<const StepRecord> steps, const RetentionState& state,
            const RetentionOptions& options) {
  const StepRecord* last = nullptr;
  for (const StepRecord& record : steps) {
    if (record.quarantined || record.ephemeral ||
        state.others.contains(record.version.step)) {
      continue;
    }
    last = &record;
  }
  if (last == nullptr) return {};
  EarlierSave before = SaveBefore(steps, *last);
  while (before.record != nullptr && before.record->ephemeral) {
    before = SaveBefore(steps, *before.record);
  }
  if (!before.step.has_value()) return {};
  // A removed save was permanent if an ephemeral one would have been kept.
  if (before.record == nullptr &&
      EphemeralAfter(*before.step, state) >= options.keep_ephemeral) {
    return {};
  }
  Pace pace;
  if (*before.step < last->version.step) {
    pace.steps = last->version.step - *before.step;
  }
  if (before.record == nullptr) return pace;
  pace.micros = std::max<int64_t>(
      0, internal::StepInfoOf(*last).time_micros -
             internal::StepInfoOf(*before.record).time_micros);
  return pace;
}

// Generates the next saves: of the same kind as the step in question, and with
// worse metrics than all existing steps.
class NextSaves {
 public:
  NextSaves(const RetentionState& state, const Pace& pace, bool ephemeral)
      : steps_(pace.steps.value_or(1)), micros_(pace.micros.value_or(0)) {
    next_.step = state.newest;
    next_.time_micros = state.now_micros;
    next_.ephemeral = ephemeral;
    const StepInfo* last = nullptr;
    for (const StepInfo& info : state.steps) {
      for (const auto& [name, value] : info.metrics) {
        next_.metrics[name] = std::numeric_limits<double>::quiet_NaN();
      }
      if (info.ephemeral || state.others.contains(info.step)) continue;
      last = &info;
    }
    if (last == nullptr || ephemeral) return;
    // The newest may be ephemeral.
    next_.step = state.newest - (state.newest - last->step) % steps_;
  }

  const StepInfo& Next() {
    next_.step += steps_;
    next_.time_micros += micros_;
    return next_;
  }

 private:
  StepInfo next_;
  const int64_t steps_;
  const int64_t micros_;
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

// What a retention's decisions depend on besides the number of saves.
struct Needed {
  bool steps = false;
  bool times = false;
  bool metrics = false;
};

Needed NeededBy(const RetentionOptions& options) {
  const std::string json = internal::RetentionJson(options);
  Needed needed;
  needed.times = absl::StrContains(json, "_n_seconds\"");
  // Later saves never change whether a step is a multiple of a number. But they
  // count towards latest_of, and may be nearer to a multiple.
  needed.steps = absl::StrContains(json, "\"keep_nearest_") ||
                 absl::StrContains(json, "\"latest_of\"");
  needed.metrics = absl::StrContains(json, "\"best_");
  return needed;
}

// Describes the save that removes a step.
std::string RemovingSave(const StepInfo& removed, const StepInfo& save,
                         int64_t count, const Pace& pace,
                         const RetentionOptions& options) {
  std::string text;
  if (removed.ephemeral) {
    text =
        options.keep_ephemeral == 0
            ? "the next save"
            : absl::StrCat("the ", Ordinal(count), " ephemeral save from now");
  } else if (pace.steps.has_value()) {
    text = absl::StrCat("the save of step ", save.step, ", the ",
                        Ordinal(count), " from now");
  } else {
    text = absl::StrCat("the ", Ordinal(count), " permanent save from now");
  }
  absl::StrAppend(&text, ", if they continue as before");
  if (!removed.ephemeral && count > 1 && NeededBy(options).metrics) {
    text += " without better metrics";
  }
  return text;
}

// Returns why the next save, even an ephemeral one, would remove a permanent
// step that is kept only because it is the latest; empty if it would not.
std::string WhyAnySaveRemoves(const StepInfo& step,
                              const RetentionOptions& options,
                              RetentionState state) {
  Commit({state.newest + 1, state.now_micros, /*ephemeral=*/true, {}}, &state);
  const auto decision = internal::PlanStep(options, state, step.step);
  return decision.has_value() && !decision->stays ? decision->reason : "";
}

// Saves until one removes the step, and describes that one.
std::string WhatRemoves(const StepInfo& step, const RetentionOptions& options,
                        const Pace& pace, RetentionState state) {
  constexpr int64_t kMaxSaves = 256;
  const Needed needed = NeededBy(options);
  if (!step.ephemeral && ((needed.steps && !pace.steps.has_value()) ||
                          (needed.times && !pace.micros.has_value()))) {
    return "a later permanent save, if any: which one depends on the steps and "
           "times of the next saves";
  }
  const bool mixed = EphemeralAfter(-1, state) > 0;
  if (!step.ephemeral && (mixed || !pace.steps.has_value())) {
    const std::string reason = WhyAnySaveRemoves(step, options, state);
    if (!reason.empty()) {
      return absl::StrCat("the next save",
                          mixed ? ", permanent or ephemeral" : "", ": ",
                          reason);
    }
  }
  NextSaves saves(state, pace, step.ephemeral);
  for (int64_t count = 1; count <= kMaxSaves; ++count) {
    const StepInfo& save = saves.Next();
    Commit(save, &state);
    const std::vector<RetentionDecision> removed =
        internal::PlanRemoval(options, state);
    std::set<int64_t> gone;
    for (const RetentionDecision& decision : removed) {
      if (decision.step == step.step) {
        return absl::StrCat(RemovingSave(step, save, count, pace, options),
                            ": ", decision.reason);
      }
      gone.insert(decision.step);
    }
    std::erase_if(state.steps, [&](const StepInfo& info) {
      return gone.contains(info.step);
    });
  }
  return absl::StrCat(
      "none of the next ", kMaxSaves, " saves",
      needed.metrics ? ", unless their metrics are better" : "");
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
  StepInfo asked;
  for (const StepRecord& record : steps) {
    if (record.version.step != step) continue;
    asked = internal::StepInfoOf(record);
    const auto saved = record.user_metadata.find(internal::kSavedBecause);
    if (saved != record.user_metadata.end()) explanation.saved = saved->second;
  }
  if (now->stays) explanation.kept = now->reason;
  const Pace pace = PaceOf(steps, state, options);
  explanation.removed = WhatRemoves(asked, options, pace, std::move(state));
  return explanation;
}

}  // namespace ckptdb
