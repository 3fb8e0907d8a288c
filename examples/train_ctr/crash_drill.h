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
  CrashDrill(const CrashDrill&) = delete;
  CrashDrill& operator=(const CrashDrill&) = delete;

  // Returns whether it is at a point of a save. The sweeps of a store under
  // such a drill belong to its saves: they must not run in the background,
  // where they would pass their points at any time.
  bool at_point() const {
    return at_ && !at_->point.empty() && at_->point != kEvaluationPoint;
  }

  // Called when `step` is trained. It may not return.
  void Trained(int64_t step) const;

  // Called when the progress of an evaluation of `step` is saved. It may not
  // return.
  void Evaluating(int64_t step) const;

  // The save of `step` begins: Passed kills from here to Disarm, if the drill
  // is at this save.
  void Arm(int64_t step);
  // A store's hook. May not return.
  void Passed(absl::string_view point) const;
  // The save and its sweep are over, and the process is alive: when armed,
  // FailedPrecondition naming the point that they did not pass.
  absl::Status Disarm();

 private:
  const std::optional<CrashAt> at_;
  const bool is_here_;
  std::atomic<bool> armed_ = false;
};

}  // namespace train_ctr

#endif  // CKPTDB_EXAMPLES_TRAIN_CTR_CRASH_DRILL_H_
