// SPDX-License-Identifier: Apache-2.0
// The pace of a training's steps; internal to manager/.
#ifndef CKPTDB_MANAGER_CORE_STEP_PACE_H_
#define CKPTDB_MANAGER_CORE_STEP_PACE_H_

#include <chrono>
#include <cstdint>
#include <optional>

#include "absl/time/time.h"

namespace ckptdb::internal {

// Measures, on the owner, how long a step takes, from one call in which ranks
// meet, or begin to exchange notices, to the next; the time of meetings does
// not count. Only the training thread uses it.
class StepPace {
 public:
  using Clock = std::chrono::steady_clock;

  // Counts a call of Step.
  void CountStep() { ++counted_; }
  // Called when all ranks have arrived at a meeting, and when it has ended.
  void OnMeeting(Clock::time_point now);
  void OnMeetingEnd(Clock::time_point now) { ended_ = now; }
  // Called when this rank begins to exchange notices.
  void OnExchange(Clock::time_point now) {
    OnMeeting(now);
    OnMeetingEnd(now);
  }

  // Returns how many calls of Step fit in `interval`: at least 1, at most
  // kMaxSteps, and at most kGrowth times as many as were measured, or as
  // `planned` before, since a few steps may not be typical. Assumes the
  // slower of the last two measurements.
  int64_t StepsWithin(absl::Duration interval, int64_t planned = 0) const;

  static constexpr int64_t kMaxSteps = 1000;
  static constexpr int64_t kGrowth = 10;

 private:
  struct Measurement {
    int64_t steps = 0;
    absl::Duration time;
    absl::Duration per_step() const {
      return steps == 0 ? absl::ZeroDuration() : time / steps;
    }
  };

  int64_t counted_ = 0;  // since the last meeting
  std::optional<Clock::time_point> ended_;
  Measurement last_;
  Measurement before_;
};

}  // namespace ckptdb::internal

#endif  // CKPTDB_MANAGER_CORE_STEP_PACE_H_
