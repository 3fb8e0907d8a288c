// One save, from the decision to its outcome; internal to manager/.
#ifndef CKPTDB_MANAGER_SAVE_SAVE_OPERATION_H_
#define CKPTDB_MANAGER_SAVE_SAVE_OPERATION_H_

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "ckptdb/db/state.h"
#include "ckptdb/db/store.h"
#include "ckptdb/manager/checkpoint_manager.h"
#include "ckptdb/manager/coordinator.h"
#include "ckptdb/manager/ranks/messages.h"
#include "ckptdb/manager/save/arena.h"
#include "ckptdb/manager/save/pending_save_state.h"
#include "ckptdb/manager/save/save_publisher.h"
#include "ckptdb/manager/save/snapshot.h"
#include "ckptdb/manager/state/change_sets.h"
#include "ckptdb/manager/state/save_lineage.h"

namespace ckptdb::internal {

// The objects that all saves of a manager use. All of them outlive the saves.
struct SaveEnvironment {
  const ManagerOptions& options;
  const ModelState& model;
  const std::vector<TableSharding>& shardings;
  Coordinator* ranks;             // of the training thread
  Coordinator* background_ranks;  // of the thread that runs saves
  Store* store;                   // null on ranks other than the owner
  ChangeFeed* feed;               // null without ManagerOptions::deltas
  Arena* arena;                   // of one save at a time
  SavePublisher* publisher;       // used on the owner

  bool is_owner() const { return ranks->rank() == kOwnerRank; }
};

// The save that the ranks have agreed on, and the time at which this call
// began.
struct SaveStart {
  Announcement announced;
  // Of this rank; the error of the save if it could not begin.
  absl::StatusOr<std::string> ticket;
  SaveRequest request;
  bool answers_preemption = false;
  // The time by ManagerOptions::now_micros of the owner.
  int64_t begun_at_micros = 0;
  // The time at which the training thread called the manager, the time that it
  // then waited for the save before, if there was one to wait for, and the time
  // that it took to decide.
  std::chrono::steady_clock::time_point called_at;
  std::optional<int64_t> wait_micros;
  int64_t planning_micros = 0;
};

// It owns what is saved, what was staged and what came of it. Two threads use
// it, one after the other: the training thread makes it and calls Capture; then
// the thread that saves, or the same one, calls Run; when Run has returned the
// training thread looks at the outcome. Only pending() is for all threads.
class SaveOperation {
 public:
  SaveOperation(const SaveEnvironment& environment, const SaveLineage& lineage,
                SaveStart start);
  SaveOperation(const SaveOperation&) = delete;
  SaveOperation& operator=(const SaveOperation&) = delete;

  int64_t step() const { return announced_.step; }
  SavePolicy::Kind kind() const { return request_.kind; }
  // Returns false for a save that could not begin: it fails with that error,
  // takes no changed rows, and reads nothing of the model.
  bool begun() const { return announced_.begin_error.ok(); }
  bool answers_preemption() const { return answers_preemption_; }
  // Returns what policies know of the step.
  StepInfo step_info() const;
  const std::shared_ptr<PendingSave::State>& pending() const {
    return pending_;
  }

  // Takes the changed rows and the model as it is now: copied where the arena
  // has room for all of it, or else the model is read by Run. What fails here
  // fails the save. `lineage` is as the constructor was given it.
  void Capture(const SaveLineage& lineage);
  // Stages, and commits with all ranks. Says by PendingSave::State::SetStaged
  // when the model may change. What fails, or throws, is in status().
  void Run();

  // Returns the status after Run.
  const absl::Status& status() const { return outcome_.status; }
  const SaveResult& result() const { return outcome_.result; }
  const CheckpointManager::SaveReport& report() const { return report_; }
  CheckpointManager::SaveReport& report() { return report_; }
  // Gives away what it returns.
  ChangeSets TakeChanges() { return std::move(changes_); }

 private:
  absl::Status CaptureModel(const SaveLineage& lineage);
  absl::StatusOr<BaseReasons> ChooseBases(const SaveLineage& lineage);
  absl::Status AuditDeltas(const BaseReasons& bases,
                           const SaveLineage& lineage) const;
  absl::Status TakeSnapshot(BaseReasons bases);
  absl::Status SetDevicesAside();
  void ReserveCopies(StageCopies* copies) const;
  void LetTrainingContinue();
  void StageAndCommit();
  void StagePart();
  absl::StatusOr<StagedRank> StageModel();
  void CommitWithAll();
  Outcome Publish(const std::vector<std::string>& parts);
  absl::StatusOr<std::vector<StagedRank>> CollectParts(
      const std::vector<std::string>& parts);
  void CompleteReport();

  const SaveEnvironment& environment_;
  const Announcement announced_;
  const absl::StatusOr<Ticket> ticket_;
  const SaveRequest request_;
  const bool answers_preemption_;
  const int64_t begun_at_micros_;
  const std::chrono::steady_clock::time_point called_at_;
  // The time at which the save before had ended.
  const std::chrono::steady_clock::time_point begin_;
  // These are of the lineage, for retention: the parent, and the steps that are
  // removed with the branch that was abandoned.
  const std::optional<Version> parent_;
  const std::set<int64_t> abandoned_;
  const std::optional<int64_t> source_;
  const std::shared_ptr<PendingSave::State> pending_;

  ChangeSets changes_;
  std::unique_ptr<Snapshot> snapshot_;
  bool copied_ = false;      // the snapshot points to the arena, not the model
  bool model_read_ = false;  // the model may change
  SavePart part_;            // of this rank
  Outcome outcome_;
  CheckpointManager::SaveReport report_;
};

}  // namespace ckptdb::internal

#endif  // CKPTDB_MANAGER_SAVE_SAVE_OPERATION_H_
