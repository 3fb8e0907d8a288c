// Puts steps into the model; internal to manager/.
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
#include "ckptdb/db/reader.h"
#include "ckptdb/db/state.h"
#include "ckptdb/db/store.h"
#include "ckptdb/manager/checkpoint_manager.h"
#include "ckptdb/manager/coordinator.h"
#include "ckptdb/manager/load/load_plan.h"
#include "ckptdb/manager/load/step_opener.h"
#include "ckptdb/manager/state/change_sets.h"
#include "ckptdb/manager/state/save_lineage.h"

namespace ckptdb::internal {

// Restores and loads: the owner picks a step, and all ranks load their part of
// it. What a restore means for the next save it tells the lineage. The training
// thread uses it, any thread BestStep().
class Restorer {
 public:
  // All parts outlive the restorer.
  struct Parts {
    const ManagerOptions& options;
    const ModelState& model;
    const std::vector<TableSharding>& shardings;
    ModelState::Shard shard;
    Coordinator* ranks;
    Store* store;      // of the owner, unless it only reads
    Reader* reader;    // of a manager that is read-only
    ChangeFeed* feed;  // null without ManagerOptions::deltas
    SaveLineage* lineage;
  };

  explicit Restorer(const Parts& parts);
  Restorer(const Restorer&) = delete;
  Restorer& operator=(const Restorer&) = delete;

  // Does what CheckpointManager::Restore does, but reports nothing.
  absl::StatusOr<CheckpointManager::RestoreReport> Restore(
      const RestoreRequest& request);
  // Returns what a training that begins restores, as
  // CheckpointManager::RestoreOrStart says; nothing for a fresh start.
  absl::StatusOr<std::optional<RestoreRequest>> RequestAtStart(
      const RestoreRequest& request);
  // Does what CheckpointManager::Load does.
  absl::StatusOr<CheckpointManager::LoadSummary> Load(
      const std::vector<LoadRule>& rules, bool dry_run);

  // Blocks, in a read-only manager, until the store has a step that was saved
  // after the one in the model. Returns Cancelled if `cancelled` returns true;
  // it is called often, as a signal handler may set it.
  absl::Status AwaitNewer(absl::Duration timeout,
                          const std::function<bool()>& cancelled);
  // Opens the newest step for RestoreNewest: by what has changed since the one
  // that the model holds, where the model is as a step was. Does not use the
  // model.
  absl::StatusOr<Version> OpenNewest();
  // Puts the step that OpenNewest has opened into the model. Opens the newest
  // one if none is open, or if the model has changed since.
  absl::StatusOr<CheckpointManager::RestoreReport> RestoreNewest();
  // Closes what is open. It comes before the end of Parts::reader.
  void Close() { awaited_.reset(); }

  absl::StatusOr<StepRecord> BestStep() const { return opener_.BestStep(); }

 private:
  bool is_owner() const { return parts_.ranks->rank() == kOwnerRank; }
  // A step that was opened ahead, and the version that the model held then.
  struct Awaited {
    OpenedStep opened;
    std::optional<Version> from;
  };
  // Returns the version that the model is exactly; none after a load, for
  // example, when it cannot be brought up to date by changes.
  std::optional<Version> Held() const;
  // Opens the step of the request, unless it was opened ahead.
  absl::StatusOr<OpenedStep> Open(const RestoreRequest& request,
                                  const std::optional<Version>& from);
  absl::Status AgreeOn(absl::string_view tag, const absl::Status& status);
  absl::StatusOr<CheckpointManager::RestoreReport> RestoreOrFallBack(
      const RestoreRequest& request);
  absl::Status OnlyEmptyIsNotFound(const absl::Status& status) const;
  absl::StatusOr<CheckpointManager::RestoreReport> RestoreOnce(
      const RestoreRequest& request, const std::optional<Version>& from);
  absl::StatusOr<LoadPlan> PlanRestore(const OpenedStep& opened,
                                       const RestoreRequest& request) const;
  absl::StatusOr<LoadPlan> PlanFor(const OpenedStep& opened,
                                   const LoadRule& rule) const;
  absl::Status NoteRestored(const StepReader& step, const LoadPlan& plan,
                            const std::string& path, bool merged);
  absl::StatusOr<RestoreTarget> FindOwnStep();
  absl::Status LoadByRule(const LoadRule& rule, bool dry_run,
                          CheckpointManager::LoadedRule* loaded);
  absl::Status LoadStep(const LoadRule& rule, bool dry_run,
                        CheckpointManager::LoadedRule* loaded);
  bool HasNewer() const;

  const Parts parts_;
  StepOpener opener_;
  // Whether RestoreRequest::evolve restored the model, and not the options.
  bool evolved_by_request_ = false;
  std::optional<Awaited> awaited_;
};

}  // namespace ckptdb::internal

#endif  // CKPTDB_MANAGER_LOAD_RESTORER_H_
