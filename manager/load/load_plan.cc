// SPDX-License-Identifier: Apache-2.0
#include "manager/load/load_plan.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "db/base/call_guard.h"
#include "manager/load/load_fit.h"
#include "manager/load/load_patterns.h"
#include "manager/state/categories.h"
#include "manager/state/registered_state.h"
#include "manager/state/restore_counts.h"
#include "schema/bytes/annotate.h"
#include "schema/status.h"

namespace ckptdb::internal {
namespace {

using ItemOutcome = LoadedItem::Outcome;

// Callers interpret NotFound as "the store has no step". So NotFound from the
// trainer's own code, such as a file that an io state opens, becomes
// FailedPrecondition.
absl::Status WithoutNotFound(absl::string_view what,
                             const absl::Status& status) {
  if (!absl::IsNotFound(status)) return status;
  return Reword(status, absl::StatusCode::kFailedPrecondition,
                absl::StrCat(what, ": ", status.message()));
}

// Returns the tables, with their rows in the step, that the rule leaves out of
// the planned items.
std::vector<std::string> ExcludedTables(const LoadInputs& inputs,
                                        const LoadRule& rule,
                                        const std::vector<PlannedItem>& items) {
  std::vector<std::string> excluded;
  if (rule.exclude.empty()) return excluded;
  for (const RegisteredTable& table : inputs.model.tables()) {
    const bool planned =
        std::any_of(items.begin(), items.end(), [&](const PlannedItem& each) {
          return each.item.category == kSparse && each.item.name == table.name;
        });
    if (planned) continue;
    const auto found = inputs.step.FindTable(SourceOf(rule.oname, table.name));
    if (!found.ok() || found->rows == 0) continue;
    excluded.push_back(absl::StrCat("table \"", table.name, "\" (",
                                    found->exact ? "" : "at most ", found->rows,
                                    " rows)"));
  }
  return excluded;
}

}  // namespace

absl::StatusOr<LoadPlan> LoadPlan::Make(const LoadInputs& inputs,
                                        const LoadRule& rule) {
  LoadPlan plan;
  plan.read_ = inputs.options.restore.read;
  if (plan.read_.progress) {
    plan.progress_ = std::make_shared<LoadProgress>(plan.read_.progress);
    plan.read_.progress = [progress = plan.progress_](uint64_t done,
                                                      uint64_t all) {
      progress->Report(done, all);
    };
  }
  CKPTDB_ASSIGN_OR_RETURN(plan.items_, PlanItems(inputs, plan.read_, rule));
  plan.reader_ = &inputs.step;
  plan.ranks_ = inputs.ranks;
  plan.deadline_ = inputs.options.ranks.deadline;
  plan.step_ = inputs.step.record().version.step;
  plan.unexpected_ = UnexpectedItems(inputs.step, inputs.model, rule.oname);
  plan.unmatched_ = FindUnmatched(rule, inputs.model);
  plan.excluded_ = ExcludedTables(inputs, rule, plan.items_);
  return plan;
}

absl::Status LoadPlan::Check(Demand demand, absl::string_view remedy) const {
  for (const UnmatchedPattern& each : unmatched_) {
    if (demand == Demand::kAny && each.kind == kLoadPattern) continue;
    return absl::InvalidArgumentError(UnmatchedText(each));
  }
  std::vector<const LoadedItem*> missing;
  std::vector<const LoadedItem*> misfits;
  bool remedy_helps = false;
  const bool all_needed =
      demand == Demand::kAll || (demand == Demand::kFit && AllMissing());
  for (const PlannedItem& planned : items_) {
    const LoadedItem& item = planned.item;
    // A name that a policy maps to an old one is not new in the model.
    const bool needed =
        all_needed || (demand == Demand::kFit && item.source != item.name);
    if (item.outcome == ItemOutcome::kMissing && needed) {
      missing.push_back(&item);
    }
    if (item.outcome == ItemOutcome::kMisfit && demand != Demand::kAny) {
      misfits.push_back(&item);
      remedy_helps = remedy_helps || !planned.names_remedy;
    }
  }
  if (missing.empty() && !remedy_helps) remedy = "";
  return CheckFit(step_, missing, misfits, unexpected_, remedy);
}

bool LoadPlan::AllMissing() const {
  return !items_.empty() &&
         std::all_of(items_.begin(), items_.end(), [](const PlannedItem& each) {
           return each.item.outcome == ItemOutcome::kMissing;
         });
}

absl::Status LoadPlan::CheckCapacities() const {
  for (const PlannedItem& planned : items_) {
    if (planned.check == nullptr) continue;
    const std::string what =
        absl::StrCat("checking table \"", planned.item.name, "\"");
    CKPTDB_RETURN_IF_ERROR(
        WithoutNotFound(what, CallGuarded(what, planned.check)));
  }
  return absl::OkStatus();
}

void LoadPlan::MarkNotLoaded() {
  for (PlannedItem& planned : items_) {
    if (planned.load != nullptr) planned.item.outcome = ItemOutcome::kNotLoaded;
  }
}

void LoadPlan::NoteReading(uint64_t bytes) {
  if (progress_ != nullptr) progress_->BeginItem(bytes);
}

// After an error, the item that failed is partly loaded, and those after it are
// unchanged.
absl::Status LoadPlan::RunOnly(
    const std::function<bool(const PlannedItem&)>& chosen) {
  for (PlannedItem& planned : items_) {
    if (planned.load == nullptr || !chosen(planned)) continue;
    const std::string what = absl::StrCat("loading ", planned.item.category,
                                          " \"", planned.item.name, "\"");
    planned.item.outcome = ItemOutcome::kPartlyLoaded;
    NoteReading(planned.item.bytes);
    CKPTDB_RETURN_IF_ERROR(
        WithoutNotFound(what, CallGuarded(what, planned.load)));
    planned.item.outcome = ItemOutcome::kLoaded;
  }
  return absl::OkStatus();
}

// Reads the tensors that are loaded whole and as they are, which takes far less
// time than a read for each. After an error, any of them may have changed.
absl::Status LoadPlan::ReadWholeTensors() {
  std::vector<StepReader::TensorRead> reads;
  uint64_t bytes = 0;
  for (PlannedItem& planned : items_) {
    if (planned.whole == nullptr) continue;
    planned.item.outcome = ItemOutcome::kPartlyLoaded;
    reads.push_back({planned.item.source, planned.whole, planned.item.bytes});
    bytes += planned.item.bytes;
  }
  if (reads.empty()) return absl::OkStatus();
  NoteReading(bytes);
  CKPTDB_RETURN_IF_ERROR(
      WithoutNotFound("loading tensors", reader_->ReadTensors(reads, read_)));
  for (PlannedItem& planned : items_) {
    if (planned.whole == nullptr) continue;
    planned.item.outcome = ItemOutcome::kLoaded;
  }
  return absl::OkStatus();
}

// Items that ranks load together come after the objects, which may refuse the
// step, and before items that may fail on one rank alone: no rank waits for a
// failed one.
absl::Status LoadPlan::Run() {
  // Notifies other managers that save the tables.
  for (const PlannedItem& planned : items_) {
    RestoreCounts::Global().Add(planned.tracker);
    if (progress_ != nullptr && planned.load != nullptr) {
      progress_->AddTotal(planned.item.bytes);
    }
  }
  const auto is_object = [](const PlannedItem& planned) {
    return planned.item.category == kExtra;
  };
  const auto together = [](const PlannedItem& planned) {
    return planned.together;
  };
  absl::Status status = RunOnly(is_object);
  if (std::any_of(items_.begin(), items_.end(), together)) {
    status = Agree(ranks_, "load the objects", status, deadline_);
    if (status.ok()) status = RunOnly(together);
  }
  CKPTDB_RETURN_IF_ERROR(status);
  CKPTDB_RETURN_IF_ERROR(ReadWholeTensors());
  return RunOnly([&](const PlannedItem& planned) {
    return !is_object(planned) && !together(planned) &&
           planned.whole == nullptr;
  });
}

LoadedRule LoadPlan::Describe() const {
  LoadedRule rule;
  rule.step = step_;
  for (const PlannedItem& planned : items_) rule.items.push_back(planned.item);
  for (const StepItem& item : unexpected_) {
    rule.unexpected.push_back(item.Stored());
  }
  for (const UnmatchedPattern& each : unmatched_) {
    rule.unmatched.push_back(UnmatchedText(each));
  }
  return rule;
}

BaseReasons LoadPlan::DifferingTables(const ModelState& model) const {
  BaseReasons reasons;
  for (const RegisteredTable& table : model.tables()) {
    reasons[table.name] =
        absl::StrCat("the restore of step ", step_,
                     " did not load it exactly as in that step");
  }
  for (const PlannedItem& planned : items_) {
    if (planned.as_in_step) reasons.erase(planned.item.name);
  }
  return reasons;
}

}  // namespace ckptdb::internal
