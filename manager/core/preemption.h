// SPDX-License-Identifier: Apache-2.0
// Tracks whether the machine of a rank will soon be taken away; internal to
// manager/.
#ifndef CKPTDB_MANAGER_CORE_PREEMPTION_H_
#define CKPTDB_MANAGER_CORE_PREEMPTION_H_

#include <atomic>
#include <cstdint>
#include <optional>
#include <utility>

namespace ckptdb::internal {

// Tracks a preemption from the call of SetPreempted to the save that answers
// it:
// 1. signaled_: this rank was signaled, and no step has reported it yet;
// 2. unanswered_: a step has reported it on all ranks, and no step was saved
//    since;
// 3. last_step_preempted_: the step that was trained last has reported it.
//
// A signal handler may call Set(), and any thread preempted(). The rest belongs
// to the training thread.
class Preemption {
 public:
  void Set() { signaled_ = true; }
  bool preempted() const { return signaled_ || last_step_preempted_; }

  // Returns whether the next step has to report the preemption.
  bool pending() const { return signaled_ || unanswered_; }
  // Called when all ranks have agreed that the step is preempted. The order of
  // the assignments keeps preempted() true throughout.
  void OnAgreed() {
    unanswered_ = true;
    last_step_preempted_ = true;
    signaled_ = false;
  }
  // Sets the outcome of the step that was trained last.
  void SetLastStep(bool preempted) { last_step_preempted_ = preempted; }
  // Called when the newest step was made permanent instead of saving `step`.
  void OnPromoted(int64_t step) {
    unanswered_ = false;
    promoted_at_ = step;
  }
  // The step that OnPromoted named, while the model is that step's.
  const std::optional<int64_t>& promoted_at() const { return promoted_at_; }
  // Called when another step is counted or restored, or a new lineage begins.
  void ForgetPromoted() { promoted_at_.reset(); }

  // Called when a save begins. Returns whether it answers a preemption.
  bool TakeUnanswered() { return std::exchange(unanswered_, false); }
  // Called when that save has failed: the preemption is unanswered again.
  void Reopen() { unanswered_ = true; }

 private:
  std::atomic<bool> signaled_ = false;
  std::atomic<bool> last_step_preempted_ = false;
  bool unanswered_ = false;
  std::optional<int64_t> promoted_at_;
};

}  // namespace ckptdb::internal

#endif  // CKPTDB_MANAGER_CORE_PREEMPTION_H_
