// The trainer's checkpoints, by ckptdb's manager: what a user of the library
// writes. A step holds each embedding table as a table, each tensor of the
// perceptron as a tensor, and the progress as a blob of rank 0. With several
// ranks each has its part of the tables and some of the tensors.
//
// A save goes on beside the training, unless a process is to be killed in it.
// With several ranks each has such an object, and all make the same calls; what
// is asked of the store is asked on rank 0, which owns it.
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
#include "ranks/ranks.h"
#include "train_ctr/config.h"
#include "train_ctr/crash_drill.h"
#include "train_ctr/evaluator.h"
#include "train_ctr/trainer.h"

namespace train_ctr {

// The report of a save.
struct SaveReport {
  int64_t step = 0;
  std::string kind;
  // The reason why it was saved whole with `delta`; empty otherwise.
  std::string base_reason;
  uint64_t bytes = 0;          // written by this save
  uint64_t rows_upserted = 0;  // written; a full save writes all
  uint64_t rows_erased = 0;    // ids written as gone, only by a delta
  double blocking_ms = 0;      // the training loop stood still
  double save_ms = 0;          // from its begin to durable and visible
  double commit_ms = 0;        // of it, from staged on
};

struct CheckpointOptions {
  std::string store;
  // Each so many steps are saved, and the last one; 0: none by itself.
  int64_t save_every = 0;
  int64_t last_step = 0;
  // Newest steps to keep; pinned ones stay besides.
  int64_t keep_steps = 3;
  bool delta = false;
  // One in so many saves is whole with `delta`. If 0, only those for which the
  // store says so. A restore reads what the saves since then have written, and
  // a follower has to read all of such a save.
  int64_t base_every = 10;
  // Says what happens to the steps after one that was restored.
  ckptdb::SaveSpec::Abandoned abandoned = ckptdb::SaveSpec::Abandoned::kRemove;
  // The training goes on while a save is written.
  bool async = true;
  // Options besides these; see train_ctr/config.h.
  Config config;
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

  // The trainer has done a step: saves it if it is time to, and says whether
  // the training is to end with it. An error may be of an earlier save. After
  // an error the trainer may go on, and a later save has all that the failed
  // one had.
  absl::StatusOr<ckptdb::StepOutcome> AfterStep(double train_loss);
  // Saves the trainer's step.
  absl::Status Save(double train_loss);
  // Saves the last step if it is not saved, waits until it is durable, and
  // returns the error of the save in progress.
  absl::Status Finish();

  // Evaluates over the held-out tail. If the step is saved, its progress is
  // kept.
  absl::StatusOr<Evaluation> Evaluate();
  // Returns whether an evaluation of the trainer's step was interrupted.
  absl::StatusOr<bool> EvaluationUnderWay() const;

  // This process will soon be ended. Thread-safe.
  void SetPreempted() { manager_->SetPreempted(); }

  // Returns the reports of the saves that were committed since the last call,
  // on rank 0.
  std::vector<SaveReport> TakeReports();

 private:
  Checkpoints(CheckpointOptions options, Trainer* trainer)
      : options_(std::move(options)),
        trainer_(trainer),
        own_(trainer->ranks()),
        progress_(trainer) {}

  // The options, the step counter and the reader's position. It refuses those
  // of another trainer, and is loaded first.
  class Progress : public ckptdb::ModelState::Object {
   public:
    explicit Progress(Trainer* trainer) : trainer_(trainer) {}
    absl::StatusOr<std::string> Save() override { return trainer_->progress(); }
    absl::Status Load(absl::string_view bytes) override {
      return trainer_->RestoreProgress(bytes);
    }

   private:
    Trainer* const trainer_;
  };

  ckptdb::SavePolicy Schedule() const;
  absl::StatusOr<ckptdb::ManagerOptions> NewManagerOptions();
  ckptdb::Metrics MetricsOf(double train_loss) const;
  absl::Status EndDrill(bool saved);
  void OnSaved(const ckptdb::SaveReport& saved);
  absl::Status CountRows(SaveReport* report) const;
  // Returns NotFound if the step does not exist.
  absl::Status CheckSaved(int64_t step) const;

  const CheckpointOptions options_;
  Trainer* const trainer_;
  examples::Ranks* const own_;
  Progress progress_;
  ckptdb::ModelState model_;
  std::mutex mutex_;
  std::vector<SaveReport> reports_;  // guarded by mutex_
  std::vector<ckptdb::LoadRule> load_;
  std::unique_ptr<ckptdb::CheckpointManager> manager_;
  std::unique_ptr<Evaluator> evaluator_;
  bool restored_ = false;
};

}  // namespace train_ctr

#endif  // CKPTDB_EXAMPLES_TRAIN_CTR_CHECKPOINT_H_
