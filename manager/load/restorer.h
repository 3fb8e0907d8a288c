// SPDX-License-Identifier: Apache-2.0
// Restores steps into the model; internal to manager/.
#ifndef CKPTDB_MANAGER_LOAD_RESTORER_H_
#define CKPTDB_MANAGER_LOAD_RESTORER_H_

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "db/reader.h"
#include "db/state.h"
#include "db/store.h"
#include "manager/coordinator.h"
#include "manager/load/load_plan.h"
#include "manager/load/step_opener.h"
#include "manager/manager_options.h"
#include "manager/results.h"
#include "manager/state/change_sets.h"
#include "manager/state/save_lineage.h"

namespace ckptdb::internal {

// Restores and loads: the owner picks a step, and each rank loads its part.
// Updates the lineage with the consequences for the next save. Used by the
// training thread; BestStep() by any thread.
class Restorer {
 public:
  // All parts outlive the restorer.
  struct Parts {
    const ManagerOptions& options;
    const ModelState& model;
    const std::vector<TableSharding>& shardings;
    ModelState::Shard shard;
    Coordinator* ranks;
    Store* store;      // null unless the owner of a writing manager
    Reader* reader;    // null unless read-only
    ChangeFeed* feed;  // null without ManagerOptions::save.deltas
    SaveLineage* lineage;
  };

  explicit Restorer(const Parts& parts);
  Restorer(const Restorer&) = delete;
  Restorer& operator=(const Restorer&) = delete;

  // Implements CheckpointManager::Restore, without reporting.
  absl::StatusOr<RestoreReport> Restore(const RestoreRequest& request);
  // Returns what a starting training restores, as documented at
  // CheckpointManager::RestoreOrStart; nothing for a fresh start.
  absl::StatusOr<std::optional<RestoreRequest>> RequestAtStart(
      const RestoreRequest& request);
  // Implements CheckpointManager::Load.
  absl::StatusOr<LoadSummary> Load(const std::vector<LoadRule>& rules,
                                   bool dry_run);

  // In a read-only manager, blocks until the store contains a step that was
  // saved after the model's. Ends with the error of `poll`, which it calls
  // about ten times a second.
  absl::Status AwaitNewer(absl::Duration timeout,
                          const std::function<absl::Status()>& poll);
  // Opens the newest step for RestoreNewest: as changes since the model's step,
  // if the model equals a step. Does not access the model.
  absl::StatusOr<Version> OpenNewest();
  // Restores the step that OpenNewest opened. Opens the newest one if none is
  // open, or if the model has changed since.
  absl::StatusOr<RestoreReport> RestoreNewest();
  // Closes the open step. Must be called before Parts::reader is destroyed.
  void Close() { awaited_.reset(); }

  absl::StatusOr<StepRecord> BestStep() const { return opener_.BestStep(); }
  // The tables that the last restore excluded: see LoadPlan::excluded.
  const std::vector<std::string>& excluded() const { return excluded_; }

 private:
  bool is_owner() const { return parts_.ranks->rank() == kOwnerRank; }
  // A step that was opened in advance, and the version that the model held
  // then.
  struct Awaited {
    OpenedStep opened;
    std::optional<Version> from;
  };
  // Returns the version that the model equals; nothing if changes cannot be
  // applied, such as after a load.
  std::optional<Version> HeldVersion() const;
  // Opens the requested step, unless it was opened in advance.
  absl::StatusOr<OpenedStep> Open(const RestoreRequest& request,
                                  const std::optional<Version>& from);
  absl::Status AgreeOn(absl::string_view tag, const absl::Status& status);
  absl::StatusOr<RestoreReport> RestoreOrFallBack(
      const RestoreRequest& request);
  // Returns whether an older step may be restored instead after this error, if
  // the picked step is damaged.
  bool MayFallBack(const RestoreRequest& request,
                   const absl::Status& error) const;
  // Quarantines a step whose restore returned DataLoss. Returns that error if
  // verifying the step finds no damage. The same on all ranks.
  absl::Status QuarantineIfDamaged(int64_t step, const absl::Status& error);
  absl::Status VerifyOwnStep(int64_t step) const;
  absl::Status VerifyIfAsked(const RestoreRequest& request,
                             const StepReader& step);
  absl::Status NotFoundOnlyIfEmpty(const absl::Status& status) const;
  absl::StatusOr<RestoreReport> RestoreOnce(const RestoreRequest& request,
                                            const std::optional<Version>& from);
  // Returns the policy of the request or, without one, of the options.
  const std::optional<EvolvePolicy>& EvolveOf(
      const RestoreRequest& request) const;
  // Returns the rule that restores everything registered.
  LoadRule RuleOf(const StepReader& step, const RestoreRequest& request) const;
  // Plans what the rule loads, which is made once the model is provided.
  absl::StatusOr<LoadPlan> PlanFor(
      const OpenedStep& opened, absl::string_view cast_remedy,
      const std::function<LoadRule()>& rule_of_model) const;
  // Takes items that another rank loads out of the plan's unexpected ones. All
  // ranks call it.
  absl::Status AgreeOnUnexpected(const StepReader& step,
                                 absl::StatusOr<LoadPlan>* plan) const;
  // Checks that everything registered fits.
  absl::Status CheckRestore(const LoadPlan& plan,
                            const RestoreRequest& request) const;
  absl::Status NoteRestored(const StepReader& step, const LoadPlan& plan,
                            const std::string& path, bool merged);
  absl::StatusOr<RestoreTarget> FindOwnStep();
  absl::Status LoadByRule(const LoadRule& rule, bool dry_run,
                          LoadSummary::LoadedRule* loaded);
  absl::Status LoadStep(const LoadRule& rule, bool dry_run,
                        LoadSummary::LoadedRule* loaded);
  bool HasNewer() const;

  const Parts parts_;
  StepOpener opener_;
  // Whether the model was restored with RestoreRequest::evolve rather than the
  // options.
  bool evolved_by_request_ = false;
  std::optional<Awaited> awaited_;
  std::vector<std::string> excluded_;
  // The damage that the last restore found when it verified its step.
  absl::Status damage_;
};

}  // namespace ckptdb::internal

#endif  // CKPTDB_MANAGER_LOAD_RESTORER_H_
