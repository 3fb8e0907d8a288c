#include "ckptdb/manager/state/save_lineage.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "ckptdb/schema/status.h"

namespace ckptdb::internal {
namespace {

// Returns whether `other` is abandoned when the training goes back to
// `restored`.
bool ComesAfter(const StepRecord& other, const StepRecord& restored) {
  return other.version.step > restored.version.step ||
         StateOf(other).attempt > StateOf(restored).attempt;
}

}  // namespace

// A reason that the last save or a restore has left comes before the number of
// deltas.
std::string SaveLineage::BaseReason(int64_t base_every) const {
  if (!base_due_reason_.empty()) return base_due_reason_;
  const auto every = static_cast<uint64_t>(base_every);
  if (!parent_.has_value() || every == 0 || deltas_ + 1 < every) return "";
  return absl::StrCat("a full save is due: ManagerOptions::base_every is ",
                      every);
}

SaveSpec SaveLineage::NextSpec(const Store& store, int64_t step,
                               SaveSpec::Abandoned abandoned,
                               bool overwrite) const {
  SaveSpec spec;
  spec.step = step;
  const auto ignore = [](const StepRecord&) {};
  // A parent that was deleted meanwhile is no parent, and the save is a full
  // one.
  if (parent_.has_value() && store.VisitStep(parent_->step, ignore)) {
    spec.parent = parent_;
  }
  const absl::StatusOr<StepRecord> existing = store.FindStep(step);
  spec.overwrite =
      overwrite ||
      (existing.ok() && (existing->quarantined || abandoned_.contains(step)));
  if (!abandoned_.empty()) spec.abandoned = abandoned;
  return spec;
}

void SaveLineage::OnCommitted(const SaveResult& result, TableColumns columns,
                              SaveSpec::Abandoned abandoned) {
  parent_ = result.version;
  parent_columns_ = std::move(columns);
  other_tables_.clear();
  deltas_ = result.deltas;
  base_due_reason_ = result.base_due_reason;
  // With kKeep they stay in the list: policies that ask for all steps do not
  // see them, and a later save may overwrite them.
  if (abandoned == SaveSpec::Abandoned::kRemove) abandoned_.clear();
  source_.reset();
}

absl::Status SaveLineage::SetParent(const StepReader& step,
                                    const ModelState& model,
                                    BaseReasons other_tables,
                                    const Store* store) {
  const StepRecord& record = step.record();
  parent_ = record.version;
  parent_attempt_ = StateOf(record).attempt;
  deltas_ = record.chain.size() - 1;
  base_due_reason_.clear();
  source_ = record.version.step;
  abandoned_.clear();
  // Quarantined steps are of no branch that could be given up.
  if (store != nullptr) {
    for (const StepRecord& other : store->Steps()) {
      if (!other.quarantined && ComesAfter(other, record)) {
        abandoned_.insert(other.version.step);
      }
    }
  }
  other_tables_ = std::move(other_tables);
  parent_columns_.clear();
  for (const ModelState::Table& table : model.tables()) {
    const absl::StatusOr<StepReader::TableSpec> spec =
        step.FindTable(table.name);
    // A table that is new in the model is not in the step.
    if (absl::IsNotFound(spec.status())) continue;
    CKPTDB_RETURN_IF_ERROR(spec.status());
    parent_columns_[table.name] = spec->slots;
  }
  return absl::OkStatus();
}

absl::Status SaveLineage::CheckWritten() const {
  if (writing_.empty()) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      "the model is only partly written because ", writing_,
      " failed; restore or load a step before training continues"));
}

void SaveLineage::AbandonAll(const Store* store) {
  ClearParent("the steps before were abandoned");
  newest_at_open_.reset();
  abandoned_.clear();
  if (store == nullptr) return;
  for (const StepRecord& other : store->Steps()) {
    if (!other.quarantined) abandoned_.insert(other.version.step);
  }
}

void SaveLineage::ClearParent(std::string reason) {
  parent_.reset();
  source_.reset();
  deltas_ = 0;
  base_due_reason_ = std::move(reason);
}

}  // namespace ckptdb::internal
