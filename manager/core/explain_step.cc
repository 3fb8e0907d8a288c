// SPDX-License-Identifier: Apache-2.0
#include "manager/core/explain_step.h"

#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "manager/save/save_publisher.h"

namespace ckptdb::internal {
namespace {

// Explains why a step in the store is kept.
std::string ExplainKept(const Retirement& retirement, int64_t step) {
  const std::optional<RetentionDecision> decision = retirement.DecisionOf(step);
  if (!decision.has_value()) {
    return "kept: this manager has saved no step since it was opened";
  }
  return absl::StrCat(decision->stays ? "kept: " : "removed: ",
                      decision->reason);
}

// Each step's metadata contains the reason for saving it, so that later
// managers know it, too.
std::string ExplainSaved(const StepRecord& record) {
  const auto why = record.user_metadata.find(kSavedBecause);
  return why == record.user_metadata.end()
             ? "unknown: saved without a manager, or by one that did not "
               "record it"
             : why->second;
}

}  // namespace

absl::StatusOr<StepExplanation> ExplainStep(const Store& store,
                                            const History& history,
                                            const Retirement& retirement,
                                            int64_t step) {
  // The history covers only this manager and forgets old steps; the record has
  // the reason from earlier runs.
  const std::optional<StepExplanation> noted = history.Find(step);
  const absl::StatusOr<StepRecord> record = store.FindStep(step);
  if (!noted.has_value() && !record.ok()) return record.status();
  StepExplanation explanation = noted.value_or(StepExplanation());
  if (record.ok()) {
    if (explanation.saved.empty()) explanation.saved = ExplainSaved(*record);
    // The last plan explains an existing step. The history may claim that it
    // was removed, if the commit that should have removed it failed.
    explanation.kept = ExplainKept(retirement, step);
  }
  if (explanation.kept.empty()) explanation.kept = "not in the store";
  return explanation;
}

}  // namespace ckptdb::internal
