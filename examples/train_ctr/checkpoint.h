// The trainer's checkpoints in a ckptdb store: what a user of the library
// writes.
//
// A step holds each embedding table as a table, each tensor of the perceptron
// as a tensor, and the progress as a blob.
#ifndef CKPTDB_EXAMPLES_TRAIN_CTR_CHECKPOINT_H_
#define CKPTDB_EXAMPLES_TRAIN_CTR_CHECKPOINT_H_

#include <ckptdb/db/store.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "train_ctr/crash_drill.h"
#include "train_ctr/trainer.h"

namespace train_ctr {

// What a save was and cost.
struct SaveReport {
  int64_t step = 0;
  std::string kind;
  uint64_t bytes = 0;      // written by this save
  double blocking_ms = 0;  // the training loop stood still
  double commit_ms = 0;    // of it, from staged to durable and visible
};

struct CheckpointOptions {
  std::string store;
  // Newest steps to keep; pinned ones stay besides.
  int64_t keep_steps = 3;
  std::shared_ptr<CrashDrill> crash_drill;
};

// Not thread-safe. Owns the store as long as it lives.
class Checkpoints {
 public:
  static absl::StatusOr<std::unique_ptr<Checkpoints>> Open(
      const CheckpointOptions& options);

  // The newest saved step.
  absl::StatusOr<std::optional<int64_t>> Latest() const;

  // Puts the state of `step` into a new trainer. FailedPrecondition when the
  // trainer's options or log are not those of the step, DataLoss when the
  // step's items are not what a trainer saves. After an error the trainer
  // must not be used.
  absl::Status Restore(int64_t step, Trainer* trainer) const;

  // Saves the trainer's step and retires those beyond `keep_steps`.
  absl::StatusOr<SaveReport> Save(double train_loss, Trainer* trainer);

 private:
  Checkpoints(CheckpointOptions options, std::unique_ptr<ckptdb::Store> store)
      : options_(std::move(options)), store_(std::move(store)) {}

  ckptdb::SaveSpec SpecOf(int64_t step) const;
  std::vector<int64_t> StepsToRetire(int64_t step) const;
  absl::StatusOr<ckptdb::SaveResult> SaveState(double train_loss,
                                               Trainer* trainer);

  CheckpointOptions options_;
  std::unique_ptr<ckptdb::Store> store_;
};

}  // namespace train_ctr

#endif  // CKPTDB_EXAMPLES_TRAIN_CTR_CHECKPOINT_H_
