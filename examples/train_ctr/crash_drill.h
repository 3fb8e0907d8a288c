// SPDX-License-Identifier: Apache-2.0
// Kills the process at a chosen step, or at a named point of the step's save,
// as a power switch would: SIGKILL, no destructor runs.
#ifndef CKPTDB_EXAMPLES_TRAIN_CTR_CRASH_DRILL_H_
#define CKPTDB_EXAMPLES_TRAIN_CTR_CRASH_DRILL_H_

#include <atomic>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace train_ctr {

// The place of a crash: after training `step` and before anything of it is
// saved, or at the named point of its save or of the sweep after it.
struct CrashAt {
  int64_t step = 0;
  std::string point;  // empty: before the save
};

// The point of an evaluation once its progress is kept.
inline constexpr absl::string_view kEvaluationPoint = "evaluation";

// Returns the values of --crash-at, for people.
std::string ListCrashPoints();

// "STEP" or "STEP:POINT", POINT one of ckptdb::kCrashPoints or
// kEvaluationPoint; InvalidArgument otherwise.
absl::StatusOr<CrashAt> ParseCrashAt(absl::string_view text);

// Thread-safe, but for one training thread that calls Trained, Arm, Disarm.
class CrashDrill {
 public:
  // Kills this process if the drill `is_here`. Only one rank is
  // killed; the others know of the drill, as they save in the same way.
  explicit CrashDrill(std::optional<CrashAt> at, bool is_here = true)
      : at_(std::move(at)), is_here_(is_here) {}

  // Returns whether it is at a point of a save. The sweeps of a store under
  // such a drill belong to its saves: they must not run in the background,
  // where they would pass their points at any time.
  bool at_point() const {
    return at_ && !at_->point.empty() && at_->point != kEvaluationPoint;
  }

  // Called when `step` is trained, and when the progress of an evaluation of it
  // is saved. They may not return.
  void Trained(int64_t step) const { KillAt(step, ""); }
  void Evaluating(int64_t step) const { KillAt(step, kEvaluationPoint); }

  // The save of `step` begins: Passed kills from here to Disarm, if the drill
  // is at this save.
  void Arm(int64_t step) {
    armed_ = is_here_ && at_point() && at_->step == step;
  }
  // A store's hook. May not return.
  void Passed(absl::string_view point) const {
    if (armed_) KillAt(at_->step, point);
  }
  // The save and its sweep are over, and the process is alive: when armed,
  // FailedPrecondition naming the point that they did not pass.
  absl::Status Disarm();

 private:
  void KillAt(int64_t step, absl::string_view point) const;

  const std::optional<CrashAt> at_;
  const bool is_here_;
  std::atomic<bool> armed_ = false;
};

}  // namespace train_ctr

#endif  // CKPTDB_EXAMPLES_TRAIN_CTR_CRASH_DRILL_H_
