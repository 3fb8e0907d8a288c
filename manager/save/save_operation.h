// SPDX-License-Identifier: Apache-2.0
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
#include "db/base/staging.h"
#include "db/state.h"
#include "db/store.h"
#include "manager/coordinator.h"
#include "manager/internal/step_shipping.h"
#include "manager/manager_options.h"
#include "manager/ranks/messages.h"
#include "manager/results.h"
#include "manager/save/arena.h"
#include "manager/save/column_exchange.h"
#include "manager/save/pending_save_state.h"
#include "manager/save/rank_names.h"
#include "manager/save/save_publisher.h"
#include "manager/save/snapshot.h"
#include "manager/state/change_sets.h"
#include "manager/state/save_lineage.h"

namespace ckptdb::internal {

// The objects that all saves of a manager use. All outlive the saves.
struct SaveEnvironment {
  const ManagerOptions& options;
  const ModelState& model;
  const std::vector<TableSharding>& shardings;
  Coordinator* ranks;             // for the training thread
  Coordinator* background_ranks;  // for the save thread
  Store* store;                   // null on ranks other than the owner
  ChangeFeed* feed;               // null without ManagerOptions::save.deltas
  Arena* arena;                   // used by one save at a time
  SavePublisher* publisher;       // used on the owner
  std::shared_ptr<StepShipping> shipping;  // null unless this rank ships

  bool is_owner() const { return ranks->rank() == kOwnerRank; }
};

// The save that the ranks have agreed on, and the times of the call.
struct SaveStart {
  Announcement announced;
  // This rank's ticket; the save's error if it could not begin.
  absl::StatusOr<Ticket> ticket;
  SaveRequest request;
  bool answers_preemption = false;
  // The owner's time from ManagerOptions::observers.now_micros.
  int64_t begun_at_micros = 0;
  // When the training thread called the manager, how long it then waited for
  // the previous save, if there was one, and how long it took to decide.
  std::chrono::steady_clock::time_point called_at;
  std::optional<int64_t> wait_micros;
  int64_t planning_micros = 0;
};

// Owns the state to save, the staged part and the outcome. Two threads use it
// in turn: the training thread constructs it and calls Capture; then the save
// thread, or the same one, calls Run; after Run has returned the training
// thread reads the outcome. Only pending() is thread-safe.
class SaveOperation {
 public:
  SaveOperation(const SaveEnvironment& environment, const SaveLineage& lineage,
                SaveStart start);
  SaveOperation(const SaveOperation&) = delete;
  SaveOperation& operator=(const SaveOperation&) = delete;

  int64_t step() const { return announced_.step; }
  SavePolicy::Kind kind() const { return request_.kind; }
  // Returns false if the save could not begin: it fails with that error, takes
  // no changed rows, and does not read the model.
  bool begun() const { return announced_.begin_error.ok(); }
  bool answers_preemption() const { return answers_preemption_; }
  // Returns the step as policies see it.
  StepInfo step_info() const;
  const std::shared_ptr<PendingSave::State>& pending() const {
    return pending_;
  }

  // Takes the changed rows and captures the model: copies it if it fits in the
  // arena; otherwise Run reads it. An error fails the save. `lineage` as passed
  // to the constructor.
  void Capture(const SaveLineage& lineage);
  // Returns the error of polling ManagerOptions::observers.cancelled, if that
  // ended Capture.
  const absl::Status& interrupted() const { return interrupted_; }
  // Stages, and commits with all ranks. Calls PendingSave::State::SetStaged
  // when the model may change. status() contains any error or exception.
  void Run();

  // Returns the status after Run.
  const absl::Status& status() const { return outcome_.status; }
  const SaveResult& result() const { return outcome_.result; }
  const SaveReport& report() const { return report_; }
  SaveReport& report() { return report_; }
  // Moves the changes out.
  ChangeSets TakeChanges() { return std::move(changes_); }

 private:
  absl::Status CaptureModel(const SaveLineage& lineage);
  absl::StatusOr<BaseReasons> ChooseBases(const SaveLineage& lineage,
                                          absl::Status* own);
  absl::Status AuditDeltas(const BaseReasons& bases) const;
  absl::Status TakeSnapshot(BaseReasons bases);
  absl::Status PollWhileCopying();
  absl::Status CaptureDeviceTensors();
  void ReserveCopies(StageCopies* copies) const;
  void LetTrainingContinue();
  void StageAndCommit();
  void StagePart();
  void BeginCommit();
  absl::Status CancelledStatus() const;
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
  std::string value_types_;  // of the captured model
  const bool answers_preemption_;
  const int64_t begun_at_micros_;
  const std::chrono::steady_clock::time_point called_at_;
  // The time at which the previous save had ended.
  const std::chrono::steady_clock::time_point begin_;
  // From the lineage, for retention: the parent, the steps that are removed
  // with the abandoned branch, and the source.
  const std::optional<Version> parent_;
  const std::set<int64_t> abandoned_;
  const std::optional<int64_t> source_;
  const std::shared_ptr<PendingSave::State> pending_;

  ChangeSets changes_;
  WholeTables whole_tables_;  // whose rows the snapshot has
  std::unique_ptr<Snapshot> snapshot_;
  bool copied_ = false;      // the snapshot points to the arena, not the model
  bool model_read_ = false;  // so the model may change
  absl::Status interrupted_;
  SavePart part_;    // this rank's
  RankNames names_;  // the owner compares them; empty for one rank
  Outcome outcome_;
  SaveReport report_;
};

}  // namespace ckptdb::internal

#endif  // CKPTDB_MANAGER_SAVE_SAVE_OPERATION_H_
