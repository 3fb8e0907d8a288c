// SPDX-License-Identifier: Apache-2.0
#include "tools/onset.h"

#include <algorithm>
#include <iterator>
#include <memory>
#include <numeric>
#include <utility>

#include "schema/status.h"
#include "tools/open_store.h"

namespace ckptdb::tool {
namespace {

// Whether `step` was saved on top of `other`: the other's own branch, its last,
// is among the step's, which continued it.
bool WasSavedOn(const StepRecord& step, const StepRecord& other) {
  if (other.branches.empty()) return false;
  const StepRecord::Branch& own = other.branches.back();
  return std::any_of(step.branches.begin(), step.branches.end(),
                     [&](const StepRecord::Branch& branch) {
                       return branch.first == own.first &&
                              branch.last >= own.last;
                     });
}

// Subjects whose property holds in steps[high], and not in steps[low].
struct Interval {
  size_t low = 0;
  size_t high = 0;
  std::vector<size_t> subjects;
};

class Bisection {
 public:
  Bisection(Reader* reader, std::vector<StepRecord> steps, TestStep test)
      : reader_(reader), steps_(std::move(steps)), test_(test) {}

  // Numbers of steps begin at 1 here: before them is a step without the
  // property.
  absl::StatusOr<std::vector<Onset>> Find(size_t count) {
    std::vector<Onset> onsets(count);
    std::vector<size_t> all(count);
    std::iota(all.begin(), all.end(), 0);
    std::vector<Interval> intervals = {{0, steps_.size(), std::move(all)}};
    while (!intervals.empty()) {
      Interval interval = std::move(intervals.back());
      intervals.pop_back();
      CKPTDB_RETURN_IF_ERROR(Halve(std::move(interval), &intervals, &onsets));
    }
    return onsets;
  }

 private:
  absl::Status Halve(Interval interval, std::vector<Interval>* intervals,
                     std::vector<Onset>* onsets) {
    if (interval.subjects.empty()) return absl::OkStatus();
    size_t middle = 0;
    CKPTDB_ASSIGN_OR_RETURN(const auto step,
                            OpenBetween(interval.low, interval.high, &middle));
    if (step == nullptr) {
      for (const size_t subject : interval.subjects) {
        (*onsets)[subject] = {steps_[interval.high - 1], interval.low == 0};
      }
      return absl::OkStatus();
    }
    CKPTDB_ASSIGN_OR_RETURN(std::vector<size_t> holds,
                            test_(*step, interval.subjects));
    std::sort(holds.begin(), holds.end());
    std::vector<size_t> others;
    std::set_difference(interval.subjects.begin(), interval.subjects.end(),
                        holds.begin(), holds.end(), std::back_inserter(others));
    intervals->push_back({interval.low, middle, std::move(holds)});
    intervals->push_back({middle, interval.high, std::move(others)});
    return absl::OkStatus();
  }

  // Opens the step in the middle, or another in between if it is gone. Returns
  // null if no step in between is left.
  absl::StatusOr<std::unique_ptr<StepReader>> OpenBetween(size_t low,
                                                          size_t high,
                                                          size_t* middle) {
    const size_t between = high - low - 1;
    for (size_t i = 0; i < between; ++i) {
      *middle = low + 1 + (between / 2 + i) % between;
      const StepRecord& expected = steps_[*middle - 1];
      auto step = reader_->OpenStep(expected.version.step);
      if (IsGone(step.status())) continue;
      CKPTDB_RETURN_IF_ERROR(step.status());
      // It may have been overwritten meanwhile; a fold keeps its state.
      if (StateOf((*step)->record()) == StateOf(expected)) return step;
    }
    return nullptr;
  }

  Reader* const reader_;
  const std::vector<StepRecord> steps_;
  const TestStep test_;
};

}  // namespace

std::vector<StepRecord> HistoryOf(const std::vector<StepRecord>& steps,
                                  const StepRecord& step) {
  std::vector<StepRecord> history;
  for (const StepRecord& other : steps) {
    if (other.version.step >= step.version.step) continue;
    if (!step.has_parent || WasSavedOn(step, other)) history.push_back(other);
  }
  history.push_back(step);
  return history;
}

absl::StatusOr<std::vector<Onset>> FindOnsets(
    Reader* reader, const std::vector<StepRecord>& history, size_t count,
    TestStep test) {
  return Bisection(reader, history, test).Find(count);
}

}  // namespace ckptdb::tool
