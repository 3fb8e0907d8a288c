// SPDX-License-Identifier: Apache-2.0
// The trainer's checkpoints: the code that a user of ckptdb's manager writes. A
// step holds each embedding table as a table, each tensor of the perceptron as
// a tensor, and the progress as a blob of rank 0. With several ranks each has
// its part of the tables and some of the tensors.
//
// A save runs beside the training, unless a crash drill kills the process in
// it. With several ranks each has such an object, and all make the same calls;
// rank 0, which owns the store, answers questions about it.
#ifndef CKPTDB_EXAMPLES_TRAIN_CTR_CHECKPOINT_H_
#define CKPTDB_EXAMPLES_TRAIN_CTR_CHECKPOINT_H_

#include <ckptdb/manager/checkpoint_manager.h>

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "train_ctr/crash_drill.h"
#include "train_ctr/trainer.h"

namespace train_ctr {

// The report of a save.
struct SaveReport {
  int64_t step = 0;
  std::string kind;
  // The reason for a full save with `delta`; empty otherwise.
  std::string base_reason;
  uint64_t bytes = 0;          // written by this save
  uint64_t rows_upserted = 0;  // written; a full save writes all
  uint64_t rows_erased = 0;    // tombstones, only in a delta
  double blocking_ms = 0;      // the training loop was blocked
  double save_ms = 0;          // from its start until durable and visible
  double commit_ms = 0;        // of save_ms, after staging
};

struct CheckpointOptions {
  std::string store;
  // The interval of saves in steps; the last step is saved too. 0: no schedule.
  int64_t save_every = 0;
  int64_t last_step = 0;
  // Newest steps to keep, beside pinned ones.
  int64_t keep_steps = 3;
  bool delta = false;
  // The interval of full saves with `delta`. 0: only when the store requires
  // one. A restore reads all saves since the last full one, and a follower
  // reads all of a full save.
  int64_t base_every = 10;
  // Decides about the steps after a restored one.
  ckptdb::SaveSpec::Abandoned abandoned = ckptdb::SaveSpec::Abandoned::kRemove;
  // Saves are written only when the training waits, not beside it.
  bool sync = false;
  // A JSON file with options of the manager besides these, and with a load
  // specification under "load". Empty: none.
  std::string config;
  // The number of batches after which the progress of an evaluation is saved.
  // If 0, it never is.
  int64_t eval_save_every = 100;
  std::shared_ptr<CrashDrill> crash_drill;
};

// The checkpoints of a trainer. It owns the store as long as it lives. Not
// thread-safe.
class Checkpoints {
 public:
  // Opens the checkpoints of `trainer`, which is new and outlives this.
  static absl::StatusOr<std::unique_ptr<Checkpoints>> Open(
      const CheckpointOptions& options, Trainer* trainer);

  // Returns AlreadyExists if the store has a step, which a run that does not
  // resume would start over.
  absl::Status CheckEmpty() const;

  // Restores `step`, by default the newest, and returns its number; saves
  // continue from it. Returns nothing if the store has no step: the trainer
  // starts at 0. Returns FailedPrecondition if the trainer's options or log are
  // not those of the step. After an error the trainer must not be used.
  absl::StatusOr<std::optional<int64_t>> RestoreOrStart(
      std::optional<int64_t> step = std::nullopt);

  // Loads what the configuration says, and saves the first step.
  absl::Status StartTraining();

  // Call after each step: saves it if one is due, and returns whether to stop
  // training. The error may be an earlier save's. The trainer may continue
  // after an error: the next save includes the changes of the failed one.
  absl::StatusOr<ckptdb::StepOutcome> AfterStep(double train_loss);
  // Saves the trainer's step.
  absl::Status Save(double train_loss);
  // Saves the last step if it is not saved, waits until it is durable, and
  // returns the error of the save in progress.
  absl::Status Finish() { return manager_->FinishTraining(); }
  // Waits for steps that are being shipped. No other call may follow.
  absl::Status Close() { return manager_->Close(); }

  // Evaluates over the held-out tail. The progress of evaluating a saved step
  // is stored with the step, and an interrupted evaluation is resumed.
  absl::StatusOr<Evaluation> Evaluate();
  // Returns whether an evaluation of the trainer's step was interrupted.
  absl::StatusOr<bool> EvaluationUnderWay() const;

  // Announces that this process will soon end. Thread-safe.
  void SetPreempted() { manager_->SetPreempted(); }

  // Returns the reports of the saves that were committed since the last call,
  // on rank 0.
  std::vector<SaveReport> TakeReports();

 private:
  // The options, the step counter and the reader's position. It refuses those
  // of another trainer, and is loaded first.
  struct Progress : ckptdb::BlobState {
    explicit Progress(Trainer* of) : trainer(of) {}
    absl::StatusOr<std::string> Dump() override { return trainer->progress(); }
    absl::Status Load(absl::string_view bytes) override {
      return trainer->RestoreProgress(bytes);
    }
    Trainer* const trainer;
  };
  // The place of an evaluation in the log.
  struct Place : ckptdb::BlobState {
    explicit Place(LogPosition* of) : position(of) {}
    absl::StatusOr<std::string> Dump() override;
    absl::Status Load(absl::string_view bytes) override;
    LogPosition* const position;
  };

  Checkpoints(CheckpointOptions options, Trainer* trainer)
      : options_(std::move(options)), trainer_(trainer), progress_(trainer) {}

  absl::Status ReadConfig(ckptdb::ManagerOptions* manager);
  absl::StatusOr<ckptdb::ManagerOptions> NewManagerOptions();
  ckptdb::SaveRequest RequestOf(double train_loss) const;
  absl::Status KeepEvaluation(const ckptdb::EvaluationState::Name& name);
  void OnSaved(const ckptdb::SaveReport& saved);
  absl::Status CountRows(SaveReport* report) const;

  const CheckpointOptions options_;
  Trainer* const trainer_;
  Progress progress_;
  EvaluationProgress evaluation_;
  Place place_{&evaluation_.position};
  ckptdb::ModelState model_;
  std::mutex mutex_;
  std::vector<SaveReport> reports_;  // guarded by mutex_
  std::vector<ckptdb::LoadRule> load_;
  std::unique_ptr<ckptdb::CheckpointManager> manager_;
  bool restored_ = false;
};

}  // namespace train_ctr

#endif  // CKPTDB_EXAMPLES_TRAIN_CTR_CHECKPOINT_H_
