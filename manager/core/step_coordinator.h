// Coordinates all ranks at a step; internal to manager/.
#ifndef CKPTDB_MANAGER_CORE_STEP_COORDINATOR_H_
#define CKPTDB_MANAGER_CORE_STEP_COORDINATOR_H_

#include <chrono>
#include <cstdint>
#include <optional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "ckptdb/manager/checkpoint_manager.h"
#include "ckptdb/manager/core/decision_maker.h"
#include "ckptdb/manager/core/manager_parts.h"
#include "ckptdb/manager/core/preemption.h"
#include "ckptdb/manager/core/save_runner.h"
#include "ckptdb/manager/policy/history.h"
#include "ckptdb/manager/ranks/messages.h"
#include "ckptdb/manager/state/save_lineage.h"
#include "ckptdb/manager/state/training_progress.h"

namespace ckptdb::internal {

// Brings all ranks to the same decision about a step: they gather whether one
// of them is preempted or a callback has thrown, the owner decides, begins the
// save in its store and broadcasts that, and every rank applies it. It owns the
// times of the call that is under way. Only the training thread uses it.
class StepCoordinator {
 public:
  // All parts outlive the coordinator.
  struct Parts {
    ManagerParts* manager;
    TrainingProgress* progress;
    Preemption* preemption;
    const SaveLineage* lineage;
    DecisionMaker* decisions;
    SaveRunner* saves;
    History* history;
  };

  explicit StepCoordinator(const Parts& parts) : parts_(parts) {}
  StepCoordinator(const StepCoordinator&) = delete;
  StepCoordinator& operator=(const StepCoordinator&) = delete;

  // Decides on the step that was trained last, unless the caller has, whose
  // decision is `wanted` then; and saves it where that is the decision.
  absl::StatusOr<CheckpointManager::StepOutcome> BroadcastDecision(
      const std::optional<SavePolicy::Decision>& wanted,
      const SaveRequest& request);
  // Returns what BroadcastDecision would decide for `step`. All ranks take note
  // of the end of the save before, as at a step; nothing else changes.
  absl::StatusOr<SavePolicy::Decision> Foresee(int64_t step,
                                               const Metrics& metrics);

 private:
  using Clock = std::chrono::steady_clock;

  // The call of BroadcastDecision that is under way.
  struct Times {
    Clock::time_point called_at;
    std::optional<int64_t> wait_micros;
    int64_t planning_micros = 0;
    int64_t begun_at_micros = 0;
  };

  absl::Status GatherNotices(bool of_a_step, bool* preempted);
  absl::StatusOr<std::string> TellAfterNotices(const std::string& tag,
                                               std::string announced);
  void FinishSave();
  // The following run on the owner.
  void Announce(const std::optional<SavePolicy::Decision>& wanted,
                const SaveRequest& request, Announcement* announced);
  absl::Status DecideAndBegin(const std::optional<SavePolicy::Decision>& wanted,
                              const SaveRequest& request,
                              Announcement* announced);
  absl::Status BeginSave(const SaveRequest& request, Announcement* announced);
  absl::Status Begin(const SaveRequest& request, Announcement* announced);
  void GiveUp(Announcement* announced);
  void NoteDecision(const Announcement& announced);
  Announcement AnnounceForeseen(int64_t step, const Metrics& metrics,
                                Announcement announced);
  // The following run on all ranks.
  absl::StatusOr<CheckpointManager::StepOutcome> ApplyDecision(
      Announcement announced, const SaveRequest& request);
  absl::Status Save(Announcement announced, const SaveRequest& request,
                    CheckpointManager::StepOutcome* outcome);
  absl::StatusOr<std::string> TakeTicket(uint32_t attempt);

  const Parts parts_;
  Times times_;
  // What a callback of this rank has thrown, as GatherNotices has sent it last.
  absl::Status noticed_;
  // On the owner, those of the save that was begun last, by rank.
  std::vector<std::string> tickets_;
};

}  // namespace ckptdb::internal

#endif  // CKPTDB_MANAGER_CORE_STEP_COORDINATOR_H_
