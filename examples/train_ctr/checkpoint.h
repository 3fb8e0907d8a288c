// The trainer's checkpoints in a ckptdb store: what a user of the library
// writes. What is in a step says train_ctr/restore.h.
//
// With `delta` a save of a table writes the rows that changed since the save
// before it: the set is taken from the table's tracker when the save begins,
// and returned when it fails. After a restore the tables are those of the step,
// so the first save after it is a delta as well.
#ifndef CKPTDB_EXAMPLES_TRAIN_CTR_CHECKPOINT_H_
#define CKPTDB_EXAMPLES_TRAIN_CTR_CHECKPOINT_H_

#include <ckptdb/db/row_tracker.h>
#include <ckptdb/db/store.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "train_ctr/crash_drill.h"
#include "train_ctr/trainer.h"

namespace train_ctr {

// What a save was and cost.
struct SaveReport {
  int64_t step = 0;
  std::string kind;
  // Why it was saved whole with `delta`; empty otherwise.
  std::string base_reason;
  uint64_t bytes = 0;          // written by this save
  uint64_t rows_upserted = 0;  // written; a full save writes all
  uint64_t rows_erased = 0;    // ids written as gone, only by a delta
  double blocking_ms = 0;      // the training loop stood still
  double commit_ms = 0;        // of it, from staged to durable and visible
};

struct CheckpointOptions {
  std::string store;
  // Newest steps to keep; pinned ones stay besides.
  int64_t keep_steps = 3;
  bool delta = false;
  // Every so many saves are whole with `delta`; 0: only those of which the
  // store says so. A restore reads what the saves since then have written, and
  // a follower has to read all of such a save.
  int64_t base_every = 10;
  // What becomes of the steps after one that was restored.
  ckptdb::AbandonedBranch abandoned = ckptdb::AbandonedBranch::kRemove;
  std::shared_ptr<CrashDrill> crash_drill;
};

// Not thread-safe. Owns the store as long as it lives.
class Checkpoints {
 public:
  // Of `trainer`, which is new and outlives this.
  static absl::StatusOr<std::unique_ptr<Checkpoints>> Open(
      const CheckpointOptions& options, Trainer* trainer);

  // The step saved last.
  absl::StatusOr<std::optional<int64_t>> Latest() const;

  // Puts the state of `step` into the trainer; saves go on from it.
  // FailedPrecondition when the trainer's options or log are not those of the
  // step, DataLoss when the step's items are not what a trainer saves. After an
  // error the trainer must not be used.
  absl::Status Restore(int64_t step);

  // Saves the trainer's step and retires those beyond `keep_steps`. After an
  // error the trainer may go on, and a later save has all that this one had.
  absl::StatusOr<SaveReport> Save(double train_loss);

 private:
  // What changed in each table. Empty without `delta`.
  using Changes = std::vector<ckptdb::RowChanges>;

  Checkpoints(CheckpointOptions options, std::unique_ptr<ckptdb::Store> store,
              Trainer* trainer)
      : options_(std::move(options)),
        store_(std::move(store)),
        trainer_(trainer) {}

  absl::Status AddConsumers();
  absl::Status RestoreState(const ckptdb::StepReader& step);
  absl::Status GoOnFrom(const ckptdb::StepRecord& step);
  absl::StatusOr<Changes> TakeChanges();
  absl::Status ReturnChanges(Changes changes);

  ckptdb::SaveSpec NextSpec() const;
  ckptdb::PublishSpec NextPublish(double train_loss) const;
  std::vector<int64_t> StepsToRetire(int64_t step) const;
  std::string BaseReason() const;
  absl::StatusOr<ckptdb::SaveResult> SaveState(double train_loss,
                                               const Changes& changes);
  absl::StatusOr<ckptdb::SaveResult> SaveOrReturn(double train_loss);
  absl::Status CountRows(SaveReport* report) const;

  const CheckpointOptions options_;
  const std::unique_ptr<ckptdb::Store> store_;
  Trainer* const trainer_;
  std::vector<ckptdb::ConsumerId> consumers_;  // by table; empty without delta

  // The version that the trainer saved or restored last, the deltas in its
  // chain, and why the next save should be whole.
  std::optional<ckptdb::Version> parent_;
  uint64_t deltas_ = 0;
  std::string base_due_;
  // Steps after the restored one, while they are to be given up.
  std::set<int64_t> abandoned_steps_;
};

}  // namespace train_ctr

#endif  // CKPTDB_EXAMPLES_TRAIN_CTR_CHECKPOINT_H_
