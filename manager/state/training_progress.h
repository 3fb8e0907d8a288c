// SPDX-License-Identifier: Apache-2.0
// The step that a training has reached; internal to manager/.
#ifndef CKPTDB_MANAGER_STATE_TRAINING_PROGRESS_H_
#define CKPTDB_MANAGER_STATE_TRAINING_PROGRESS_H_

#include <atomic>
#include <cstdint>
#include <optional>

#include "absl/status/status.h"

namespace ckptdb::internal {

// global_step() is thread-safe; the rest belongs to the training thread.
class TrainingProgress {
 public:
  // The step that was counted or restored last.
  int64_t global_step() const { return global_step_; }
  // Returns whether there is a step to save when the training ends.
  bool trained() const { return trained_ || global_step_ > 0; }
  bool restored() const { return restored_; }

  // Counts a trained step. Returns InvalidArgument unless it is after
  // global_step(); the very first step may be 0.
  absl::Status Count(int64_t step);
  // Called when a save has begun, so that step 0 can no longer follow.
  void OnSaved() { before_first_step_ = false; }
  // Called when a step was restored. `step` is unset for a step of another
  // store, whose number is unrelated to this training.
  void OnRestored(std::optional<int64_t> step);

 private:
  std::atomic<int64_t> global_step_ = 0;
  // No step was counted, saved or restored yet: the first may be step 0.
  bool before_first_step_ = true;
  bool trained_ = false;
  bool restored_ = false;
};

}  // namespace ckptdb::internal

#endif  // CKPTDB_MANAGER_STATE_TRAINING_PROGRESS_H_
