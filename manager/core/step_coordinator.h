// SPDX-License-Identifier: Apache-2.0
// Coordinates all ranks at a step; internal to manager/.
#ifndef CKPTDB_MANAGER_CORE_STEP_COORDINATOR_H_
#define CKPTDB_MANAGER_CORE_STEP_COORDINATOR_H_

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "manager/checkpoint_manager.h"
#include "manager/core/decision_maker.h"
#include "manager/core/manager_parts.h"
#include "manager/core/notice_exchange.h"
#include "manager/core/preemption.h"
#include "manager/core/save_runner.h"
#include "manager/core/step_pace.h"
#include "manager/policy/history.h"
#include "manager/ranks/messages.h"
#include "manager/state/save_lineage.h"
#include "manager/state/training_progress.h"

namespace ckptdb::internal {

// Brings all ranks to the same decision about a step. At a meeting they gather
// whether any rank is preempted or a callback has thrown; the owner decides,
// begins the save in its store and broadcasts an announcement, which every rank
// applies. The announcement also has a plan: the step at which ranks meet next,
// because the schedule may save it by its number, and the calls at which they
// exchange notices until then. They meet early if any rank has a notice, or if
// the owner would save a step because of the time; otherwise the owner's new
// plan replaces the old one. At all other steps each rank returns without the
// others, because all ranks make the same calls.
//
// Every rank that receives an announcement follows the same plan, whatever else
// its call returns. If an announcement has an error or does not arrive, or an
// exchange fails, the next step is a meeting.
//
// It stores the times of the call in progress. Only the training thread uses
// it.
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

  explicit StepCoordinator(const Parts& parts)
      : parts_(parts),
        exchange_(parts.manager->notice_ranks.get(),
                  parts.manager->options.ranks.deadline) {}
  StepCoordinator(const StepCoordinator&) = delete;
  StepCoordinator& operator=(const StepCoordinator&) = delete;

  // The decision of a caller of DecideAndSave.
  struct Wanted {
    SavePolicy::Decision decision;
    // No step follows. If a preemption is unanswered, the newest step may
    // become permanent instead, as at a preempted step.
    bool ends_training = false;
  };

  // Decides, on all ranks together, whether the step that was trained last is
  // saved, and starts the save if so. `wanted` is the caller's decision, if the
  // caller has decided; otherwise ranks may return without meeting.
  absl::StatusOr<StepOutcome> DecideAndSave(const std::optional<Wanted>& wanted,
                                            const SaveRequest& request);
  // Returns what DecideAndSave would decide for `step`. All ranks finish a save
  // that has ended, as at a step, and meet at the next step; nothing else
  // changes.
  absl::StatusOr<SavePolicy::Decision> WouldSave(int64_t step,
                                                 const Metrics& metrics);
  // Called by every other call that ranks make together: at the next step they
  // exchange notices, whatever was announced.
  void ExchangeNext() { exchange_.ExchangeNext(); }
  // Called when this rank makes no more calls.
  void Leave() { exchange_.Leave(); }

 private:
  using Clock = std::chrono::steady_clock;

  // The times of the DecideAndSave call in progress.
  struct Times {
    Clock::time_point called_at;
    std::optional<int64_t> wait_micros;
    int64_t planning_micros = 0;
    int64_t begun_at_micros = 0;
  };

  absl::StatusOr<std::optional<StepOutcome>> StepAlone(const Metrics& metrics);
  // Returns whether the ranks meet at the step.
  absl::StatusOr<bool> Exchange(NoticeExchange::Turn turn, int64_t step,
                                const Metrics& metrics);
  Vote OwnVote(int64_t step, const Metrics& metrics);
  absl::StatusOr<StepOutcome> Meet(const std::optional<Wanted>& wanted,
                                   const SaveRequest& request);
  absl::Status GatherNotices(bool is_step, bool* preempted);
  absl::StatusOr<std::string> BroadcastAnnouncement(const std::string& tag,
                                                    std::string announced);
  absl::Status FinishSave();
  // The following run on the owner.
  void Announce(const std::optional<Wanted>& wanted, const SaveRequest& request,
                Announcement* announced);
  absl::Status DecideAndBegin(const std::optional<Wanted>& wanted,
                              const SaveRequest& request,
                              Announcement* announced);
  absl::Status BeginSave(const SaveRequest& request, Announcement* announced);
  absl::Status BeginAttempt(const SaveRequest& request,
                            Announcement* announced);
  void PlanAfter(Announcement* announced) const;
  StepPlan PlanFrom(int64_t step, int64_t planned) const;
  absl::StatusOr<bool> MustMeet(int64_t step, const Metrics& metrics) const;
  void AbandonAttempt(Announcement* announced);
  void NoteDecision(const Announcement& announced);
  Announcement PreviewDecision(int64_t step, const Metrics& metrics,
                               Announcement announced);
  // The following run on all ranks.
  absl::StatusOr<StepOutcome> ApplyDecision(Announcement announced,
                                            const SaveRequest& request);
  absl::Status Save(Announcement announced, const SaveRequest& request,
                    StepOutcome* outcome);
  absl::StatusOr<Ticket> TakeTicket(uint32_t attempt);

  const Parts parts_;
  Times times_;
  // The exception of this rank's callback that GatherNotices has sent last.
  absl::Status callback_error_;
  // On the owner: its ticket of the save that was begun last, and the encoded
  // ones of the other ranks, by rank.
  Ticket own_ticket_;
  std::vector<std::string> sent_tickets_;
  NoticeExchange exchange_;
  std::string why_silent_;  // the reason of steps without a meeting
  StepPace pace_;
};

}  // namespace ckptdb::internal

#endif  // CKPTDB_MANAGER_CORE_STEP_COORDINATOR_H_
