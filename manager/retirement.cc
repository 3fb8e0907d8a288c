#include "ckptdb/manager/retirement.h"

#include <algorithm>
#include <utility>

namespace ckptdb::internal {
namespace {

bool IsOf(const StepInfo& info, const StepRecord& record) {
  return info.step == record.version.step &&
         info.time_micros == record.committed_at_micros &&
         info.ephemeral == record.ephemeral && info.metrics == record.metrics;
}

}  // namespace

std::vector<Fate> Retirement::Plan(const Store& store, const Commit& commit) {
  const std::lock_guard<std::mutex> lock(mutex_);
  state_.newest = commit.saved.step;
  state_.now_micros = commit.saved.time_micros;
  state_.held.clear();
  std::swap(before_, state_.steps);
  state_.steps.clear();
  state_.steps.reserve(before_.size() + 1);
  next_before_ = before_.begin();
  store.VisitSteps([&](const StepRecord& record) { Note(record, commit); });
  state_.steps.insert(std::find_if(state_.steps.rbegin(), state_.steps.rend(),
                                   [&](const StepInfo& other) {
                                     return other.step < state_.newest;
                                   })
                          .base(),
                      commit.saved);
  return PlanRemoval(options_, state_, &warning_);
}

std::string Retirement::TakeWarning() {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (warned_ || warning_.empty()) return "";
  warned_ = true;
  return warning_;
}

void Retirement::Note(const StepRecord& record, const Commit& commit) {
  const int64_t step = record.version.step;
  // These go by themselves, stay for inspection, or are written over.
  if (commit.abandoned.contains(step) || record.quarantined ||
      step == commit.saved.step) {
    return;
  }
  if (record.pinned) state_.held[step] = "pinned";
  if (commit.source == step) state_.held[step] = "the training began from it";
  while (next_before_ != before_.end() && next_before_->step < step) {
    ++next_before_;
  }
  if (next_before_ != before_.end() && IsOf(*next_before_, record)) {
    state_.steps.push_back(std::move(*next_before_++));
  } else {
    state_.steps.push_back(StepInfoOf(record));
  }
}

std::optional<Fate> Retirement::FateOf(int64_t step) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return PlanFate(options_, state_, step);
}

}  // namespace ckptdb::internal
