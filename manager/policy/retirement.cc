// SPDX-License-Identifier: Apache-2.0
#include "manager/policy/retirement.h"

#include <algorithm>
#include <utility>

#include "db/base/changed_steps.h"
#include "manager/policy/step_info.h"
#include "schema/records/branches.h"

namespace ckptdb::internal {
namespace {

// The retirement whose policy this thread runs.
thread_local const Retirement* asking = nullptr;

// Returns the step that a commit is based on; nothing in an empty store.
std::optional<StepRecord> ParentOf(const Store& store,
                                   const Retirement::Commit& commit) {
  std::optional<StepRecord> parent;
  if (commit.parent.has_value()) {
    store.VisitStep(commit.parent->step,
                    [&](const StepRecord& record) { parent = record; });
  }
  if (parent.has_value()) return parent;
  const absl::StatusOr<StepRecord> latest = store.Latest();
  if (latest.ok()) parent = *latest;
  return parent;
}

}  // namespace

class Retirement::Asking {
 public:
  explicit Asking(const Retirement* retirement)
      : outer_(std::exchange(asking, retirement)) {}
  ~Asking() { asking = outer_; }
  Asking(const Asking&) = delete;
  Asking& operator=(const Asking&) = delete;

 private:
  const Retirement* const outer_;
};

bool Retirement::InPolicy() const { return asking == this; }

// The state after the commit, assuming that it succeeds. If it fails, the next
// plan reads the steps of `assumed_` from the store again.
std::vector<RetentionDecision> Retirement::Plan(const Store& store,
                                                const Commit& commit) {
  const MutexLock lock(&mutex_);
  Refresh(store);
  const std::optional<StepRecord> parent = ParentOf(store, commit);
  assumed_ = commit.abandoned;
  for (const int64_t step : pinned_) assumed_.erase(step);
  Remove(assumed_);
  Put(commit.saved);
  assumed_.insert(commit.saved.step);
  state_.others.clear();
  // A lineage that was started in a store with older steps also descends from
  // these; steps with higher numbers do not belong to the training.
  for (const auto& [step, own] : branches_) {
    if (step > commit.saved.step ||
        (step < commit.saved.step && parent.has_value() &&
         !IsOnLineage(own, parent->branches))) {
      state_.others.insert(step);
    }
  }
  state_.newest = commit.saved.step;
  state_.now_micros = commit.now_micros;
  state_.held.clear();
  for (const int64_t step : pinned_) state_.held[step] = "pinned";
  if (commit.source.has_value()) {
    state_.held[*commit.source] = "the training began from it";
  }
  const Asking scope(this);
  std::vector<RetentionDecision> removed =
      PlanRemoval(options_, state_, &warning_);
  HoldUnshipped(store, &removed);
  return removed;
}

void Retirement::HoldUnshipped(const Store& store,
                               std::vector<RetentionDecision>* removed) {
  if (shipping_ == nullptr || keep_unshipped_ == 0) return;
  std::vector<Version> unshipped;
  for (const RetentionDecision& decision : *removed) {
    store.VisitStep(decision.step, [&](const StepRecord& record) {
      if (!shipping_->HasShipped(record.version)) {
        unshipped.push_back(record.version);
      }
    });
  }
  std::sort(
      unshipped.begin(), unshipped.end(),
      [](const Version& a, const Version& b) { return a.attempt > b.attempt; });
  if (unshipped.size() > static_cast<uint64_t>(keep_unshipped_)) {
    unshipped.resize(static_cast<size_t>(keep_unshipped_));
  }
  auto* const held = &state_.held;
  for (const Version& version : unshipped) {
    (*held)[version.step] = "it is not shipped yet";
  }
  std::erase_if(*removed, [&](const RetentionDecision& decision) {
    return held->contains(decision.step);
  });
}

std::string Retirement::TakeWarning() {
  const MutexLock lock(&mutex_);
  if (warned_ || warning_.empty()) return "";
  warned_ = true;
  return warning_;
}

void Retirement::Refresh(const Store& store) {
  const ChangedSteps changes = StepsChangedSince(store, seen_);
  seen_ = changes.until;
  // The store returns this for the first plan, and when hundreds of records
  // have changed since the previous plan.
  if (changes.all) {
    state_.steps.clear();
    pinned_.clear();
    branches_.clear();
    store.VisitSteps(
        [&](const StepRecord& record)
            ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { Note(record); });
    return;
  }
  std::set<int64_t> changed = std::move(assumed_);
  changed.insert(changes.steps.begin(), changes.steps.end());
  std::set<int64_t> gone;
  for (const int64_t step : changed) {
    bool found = false;
    // It may have been unpinned; Note adds it again if it is pinned.
    pinned_.erase(step);
    store.VisitStep(step, [&](const StepRecord& record)
                              ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
                                found = Note(record);
                              });
    if (!found) gone.insert(step);
  }
  Remove(gone);
}

// Quarantined steps stay for inspection.
bool Retirement::Note(const StepRecord& record) {
  if (record.quarantined) return false;
  if (record.pinned) pinned_.insert(record.version.step);
  branches_[record.version.step] = record.branches.back();
  Put(StepInfoOf(record));
  return true;
}

// Keeps the steps in order, as policies require. A new one is usually the last,
// so the insertion moves little.
void Retirement::Put(StepInfo info) {
  const auto at = std::lower_bound(
      state_.steps.begin(), state_.steps.end(), info.step,
      [](const StepInfo& other, int64_t step) { return other.step < step; });
  if (at != state_.steps.end() && at->step == info.step) {
    *at = std::move(info);
  } else {
    state_.steps.insert(at, std::move(info));
  }
}

void Retirement::Remove(const std::set<int64_t>& steps) {
  if (steps.empty()) return;
  std::erase_if(state_.steps, [&](const StepInfo& info) {
    return steps.contains(info.step);
  });
  for (const int64_t step : steps) branches_.erase(step);
}

std::optional<RetentionDecision> Retirement::DecisionOf(int64_t step) const {
  const MutexLock lock(&mutex_);
  const Asking scope(this);
  return PlanStep(options_, state_, step);
}

}  // namespace ckptdb::internal
