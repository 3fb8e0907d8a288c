// Decides whether a step is saved; internal to manager/.
#ifndef CKPTDB_MANAGER_CORE_DECISION_MAKER_H_
#define CKPTDB_MANAGER_CORE_DECISION_MAKER_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "ckptdb/db/store.h"
#include "ckptdb/manager/checkpoint_manager.h"
#include "ckptdb/manager/state/save_lineage.h"

namespace ckptdb::internal {

// Decides on the owner, by the schedule, by ManagerOptions::BusyPolicy while a
// save is in progress, by what was put off until later, and by whether there is
// time for a save before the machine is taken away. It owns the decision that
// was put off and what the last save cost. Only the training thread uses it; it
// calls the caller's policies.
class DecisionMaker {
 public:
  // The step that is asked about, and what is known about it.
  struct Question {
    int64_t step = 0;
    bool preempted = false;
    const Metrics& metrics;
    // The step of the save in progress; none: no save is.
    std::optional<StepInfo> saving;
  };

  // All arguments outlive it; `store` is null on ranks that do not decide.
  DecisionMaker(const ManagerOptions& options, Store* store,
                const SaveLineage* lineage)
      : options_(options), store_(store), lineage_(lineage) {}
  DecisionMaker(const DecisionMaker&) = delete;
  DecisionMaker& operator=(const DecisionMaker&) = delete;

  // Returns FailedPrecondition if the model does not come from this store, and
  // the store has `step` or a higher one, so that nothing could be saved up to
  // there.
  absl::Status CheckAhead(int64_t step) const;
  // Decides by the schedule, or by a decision that was put off.
  SavePolicy::Decision Decide(const Question& question) const;
  // Returns what Decide and the calls below would return
  // together, and changes nothing.
  absl::StatusOr<SavePolicy::Decision> Foresee(const Question& question) const;

  // Returns what happens to a decision to save while a save is in progress.
  // With ManagerOptions::BusyPolicy::kCoalesce it is put off until the end of
  // that save.
  absl::StatusOr<SavePolicy::Decision> DecideWhenBusy(
      const Question& question, const SavePolicy::Decision& decision);
  // Makes the newest step permanent instead of another save, and changes
  // *decision, when the machine will be gone before that save ends. Returns
  // whether it has.
  absl::StatusOr<bool> PromoteInstead(bool preempted,
                                      SavePolicy::Decision* decision);

  // Lets the next step be saved instead of one whose place a pinned step of an
  // abandoned branch has, and changes *decision. Returns whether it has.
  bool PassPinned(int64_t step, SavePolicy::Decision* decision);

  // `decision` holds from step `from` on, until a save begins.
  void PutOff(int64_t from, SavePolicy::Decision decision);
  // A save has begun, or a step was restored: nothing is put off any longer.
  void ForgetPutOff() { put_off_.reset(); }
  void OnSaveEnded(int64_t took_micros) { last_save_micros_ = took_micros; }

 private:
  struct PutOffSave {
    int64_t from_step = 0;
    SavePolicy::Decision decision;
  };

  absl::StatusOr<SavePolicy::Decision> ApplyBusyPolicy(
      const Question& question, const SavePolicy::Decision& decision) const;
  // Both return nothing if a save is to be made.
  std::optional<SavePolicy::Decision> PinInstead(
      int64_t step, const SavePolicy::Decision& decision) const;
  std::optional<SavePolicy::Decision> PromotionInstead(
      bool preempted, const SavePolicy::Decision& decision) const;
  std::optional<StepInfo> Newest() const;
  std::vector<StepInfo> CommittedSteps() const;

  const ManagerOptions& options_;
  Store* const store_;
  const SaveLineage* const lineage_;
  std::optional<PutOffSave> put_off_;
  int64_t last_save_micros_ = 0;
};

}  // namespace ckptdb::internal

#endif  // CKPTDB_MANAGER_CORE_DECISION_MAKER_H_
