// SPDX-License-Identifier: Apache-2.0
#include "manager/state/save_lineage.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "schema/records/branches.h"

namespace ckptdb::internal {
namespace {

// Returns whether `other` is `restored` or one of its ancestors. A lineage that
// was started in a store with older steps also descends from these, which may
// have higher numbers.
bool IsBefore(const StepRecord& other, const StepRecord& restored) {
  return other.version.step <= restored.version.step &&
         IsOnLineage(other.branches.back(), restored.branches);
}

}  // namespace

// A reason left by the last save or a restore takes precedence over the number
// of deltas.
std::string SaveLineage::BaseReason(int64_t base_every) const {
  if (!base_due_reason_.empty()) return base_due_reason_;
  const auto every = static_cast<uint64_t>(base_every);
  if (!parent_.has_value() || every == 0 || deltas_ + 1 < every) return "";
  return absl::StrCat("a full save is due: ManagerOptions::save.base_every is ",
                      every);
}

SaveSpec SaveLineage::NextSpec(const Store& store, int64_t step,
                               SaveSpec::Abandoned abandoned,
                               bool overwrite) const {
  SaveSpec spec;
  spec.step = step;
  // If the parent was deleted, replaced or quarantined meanwhile, the save has
  // no parent and is full.
  bool usable = false;
  const auto look = [&](const StepRecord& record) {
    usable = !record.quarantined && StateOf(record).attempt == parent_attempt_;
  };
  if (parent_.has_value()) store.VisitStep(parent_->step, look);
  if (usable) spec.parent = parent_;
  const absl::StatusOr<StepRecord> existing = store.FindStep(step);
  spec.overwrite =
      overwrite ||
      (existing.ok() && (existing->quarantined || abandoned_.contains(step)));
  // Without abandoned steps, a step after the parent was unquarantined since.
  const bool removes = abandoned == SaveSpec::Abandoned::kRemove;
  spec.abandoned =
      abandoned_.empty() && removes ? SaveSpec::Abandoned::kKeep : abandoned;
  return spec;
}

void SaveLineage::OnCommitted(const SaveResult& result, const Store* store) {
  has_begun_ = true;
  parent_ = result.version;
  parent_attempt_ = result.version.attempt;
  differing_tables_.clear();
  leaving_.clear();
  deltas_ = result.deltas;
  base_due_reason_ = result.base_due_reason;
  // Steps kept because of kKeep or a pin remain in the list: policies do not
  // see them, and a later save may overwrite them.
  std::erase_if(abandoned_, [&](int64_t step) {
    return step == result.version.step ||
           !store->VisitStep(step, [](const StepRecord&) {});
  });
  source_.reset();
}

void SaveLineage::SetParent(const StepRecord& record,
                            BaseReasons differing_tables, const Store* store) {
  has_begun_ = true;
  parent_ = record.version;
  parent_attempt_ = StateOf(record).attempt;
  deltas_ = record.chain.size() - 1;
  base_due_reason_.clear();
  source_ = record.version.step;
  differing_tables_ = std::move(differing_tables);
  abandoned_.clear();
  leaving_.clear();
  if (store == nullptr) return;
  store->VisitSteps([&](const StepRecord& other) {
    // Quarantined steps belong to no branch that could be abandoned.
    if (other.quarantined || IsBefore(other, record)) return;
    abandoned_.insert(other.version.step);
    if (DescendsFrom(other, record)) leaving_.insert(other.version.step);
  });
}

absl::Status SaveLineage::CheckWritten() const {
  if (writing_.empty()) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      "the model is only partly written because ", writing_,
      " failed; restore or load a step before training continues"));
}

void SaveLineage::AbandonAll(const Store* store) {
  has_begun_ = true;
  ClearParent("the previous steps were abandoned");
  newest_at_open_.reset();
  abandoned_.clear();
  if (store == nullptr) return;
  for (const StepRecord& other : store->Steps()) {
    if (!other.quarantined) abandoned_.insert(other.version.step);
  }
  leaving_ = abandoned_;
}

void SaveLineage::ClearParent(std::string reason) {
  // Only a model that continues from the parent leaves the steps after it.
  // Without a parent the steps were abandoned by AbandonAll, and stay so.
  if (parent_.has_value()) {
    abandoned_.clear();
    leaving_.clear();
  }
  parent_.reset();
  source_.reset();
  deltas_ = 0;
  base_due_reason_ = std::move(reason);
}

}  // namespace ckptdb::internal
