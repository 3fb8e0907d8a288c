// Tracks whether the machine of a rank will soon be taken away; internal to
// manager/.
#ifndef CKPTDB_MANAGER_CORE_PREEMPTION_H_
#define CKPTDB_MANAGER_CORE_PREEMPTION_H_

#include <atomic>
#include <cstdint>
#include <optional>
#include <utility>

namespace ckptdb::internal {

// A preemption, from the call of SetPreempted to the step that is saved for it:
// 1. this rank was told, and no step has said so;
// 2. a step has said so on all ranks, and none was saved since;
// 3. the step that was trained last has said so.
//
// Set() may be called by a signal handler, and preempted() by any thread. All
// else is the training thread's.
class Preemption {
 public:
  void Set() { told_ = true; }
  bool preempted() const { return told_ || last_step_preempted_; }

  // Returns whether the next step has to report the preemption.
  bool pending() const { return told_ || unanswered_; }
  // All ranks have agreed that the step is preempted. The order keeps
  // preempted() true all the time.
  void OnAgreed() {
    unanswered_ = true;
    last_step_preempted_ = true;
    told_ = false;
  }
  // Sets the outcome of the step that was trained last.
  void SetLastStep(bool preempted) { last_step_preempted_ = preempted; }
  // The newest step became permanent instead of a save of `step`.
  void OnPromoted(int64_t step) {
    unanswered_ = false;
    promoted_at_ = step;
  }
  const std::optional<int64_t>& promoted_at() const { return promoted_at_; }

  // A save begins: returns whether it answers a preemption.
  bool TakeUnanswered() { return std::exchange(unanswered_, false); }
  // Goes on with the preemption, as that save has failed.
  void Reopen() { unanswered_ = true; }

 private:
  std::atomic<bool> told_ = false;
  std::atomic<bool> last_step_preempted_ = false;
  bool unanswered_ = false;
  std::optional<int64_t> promoted_at_;
};

}  // namespace ckptdb::internal

#endif  // CKPTDB_MANAGER_CORE_PREEMPTION_H_
