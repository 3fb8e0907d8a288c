// SPDX-License-Identifier: Apache-2.0
// Decides whether a step is saved; internal to manager/.
#ifndef CKPTDB_MANAGER_CORE_DECISION_MAKER_H_
#define CKPTDB_MANAGER_CORE_DECISION_MAKER_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "db/store.h"
#include "manager/checkpoint_manager.h"
#include "manager/state/save_lineage.h"

namespace ckptdb::internal {

// Decides, on the owner, whether to save: it applies the schedule,
// ManagerOptions::BusyPolicy while a save is in progress, a decision that was
// put off, and whether a save can end before the machine is preempted. It
// stores the decision that was put off, the permanent step saved last and the
// duration of the last save. Only the training thread uses it; it calls the
// caller's policies.
class DecisionMaker {
 public:
  // A step, and what is known about it.
  struct Question {
    int64_t step = 0;
    bool preempted = false;
    const Metrics& metrics;
    // The step of the save in progress, if any.
    std::optional<StepInfo> saving;
    // Whether the trainer called Save, rather than the schedule being asked.
    bool requested = false;
  };

  // All arguments outlive it; `store` is null on ranks other than the owner.
  DecisionMaker(const ManagerOptions& options, Store* store,
                const SaveLineage* lineage)
      : options_(options), store_(store), lineage_(lineage) {}
  DecisionMaker(const DecisionMaker&) = delete;
  DecisionMaker& operator=(const DecisionMaker&) = delete;

  // Returns FailedPrecondition if the model was not restored from this store
  // and the store contains `step` or a higher one: no step could be saved
  // before the training passes that one.
  absl::Status CheckAhead(int64_t step) const;
  // Applies the schedule, or a decision that was put off.
  SavePolicy::Decision Decide(const Question& question) const;
  // Returns what Decide and the calls below would decide together; changes
  // nothing.
  absl::StatusOr<SavePolicy::Decision> WouldSave(
      const Question& question) const;

  // Returns the first step after the question's, which is not saved, that may
  // be saved because of its number or because a save was put off, or kNoStep.
  int64_t NextDue(const Question& question) const;

  // Returns what a decision to save becomes while a save is in progress. With
  // ManagerOptions::BusyPolicy::kCoalesce it is put off until that save ends. A
  // requested save stands, unless the policy is kFail.
  absl::StatusOr<SavePolicy::Decision> DecideWhenBusy(
      const Question& question, const SavePolicy::Decision& decision);
  // Makes the newest step permanent instead of saving another, and changes
  // *decision, if the machine would be gone before another save ends. Returns
  // whether it did. No save may be in progress.
  absl::StatusOr<bool> PromoteInstead(bool preempted,
                                      SavePolicy::Decision* decision);

  // Puts the save off to the next step, and changes *decision, if the store has
  // `step` and the training may not overwrite it. Returns whether it did.
  bool SkipTaken(int64_t step, SavePolicy::Decision* decision);

  // Makes `decision` apply from step `from` on, until a save of its kind or a
  // permanent one begins. Of two decisions the permanent one stays, and of the
  // same kind the one that applies earlier.
  void PutOff(int64_t from, SavePolicy::Decision decision);
  // Called when a save has begun.
  void OnSaveBegun(SavePolicy::Kind kind);
  // Called when a step was restored, or the steps were abandoned: forgets what
  // was put off and saved before.
  void OnNewLineage();
  // Called when a save was committed.
  void OnCommitted(StepInfo step);
  void OnSaveEnded(int64_t took_micros) { last_save_micros_ = took_micros; }

 private:
  absl::Status CheckAheadOfQuarantined(int64_t step) const;
  struct PutOffSave {
    int64_t from_step = 0;
    SavePolicy::Decision decision;
  };

  SavePolicy::Context ContextOf(const Question& question) const;
  absl::StatusOr<SavePolicy::Decision> ApplyBusyPolicy(
      const Question& question, const SavePolicy::Decision& decision) const;
  // Both return nothing if the save is to be made.
  std::optional<SavePolicy::Decision> DecisionIfTaken(
      int64_t step, const SavePolicy::Decision& decision) const;
  std::optional<SavePolicy::Decision> DecisionIfPromoted(bool preempted) const;
  std::optional<StepInfo> Newest() const;
  // Returns the newest permanent step, given the newest of either kind.
  std::optional<StepInfo> NewestPermanent(
      const std::optional<StepInfo>& newest) const;
  bool Counts(const StepRecord& record) const;
  std::vector<StepInfo> CommittedSteps() const;

  const ManagerOptions& options_;
  Store* const store_;
  const SaveLineage* const lineage_;
  std::optional<PutOffSave> put_off_;
  // Saved by this run; unset after a restore.
  std::optional<StepInfo> last_permanent_;
  int64_t last_save_micros_ = 0;
};

}  // namespace ckptdb::internal

#endif  // CKPTDB_MANAGER_CORE_DECISION_MAKER_H_
