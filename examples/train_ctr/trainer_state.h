// A trainer as ckptdb's manager sees it: its tables, its tensors, its progress.
#ifndef CKPTDB_EXAMPLES_TRAIN_CTR_TRAINER_STATE_H_
#define CKPTDB_EXAMPLES_TRAIN_CTR_TRAINER_STATE_H_

#include <ckptdb/manager/model_state.h>

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "train_ctr/trainer.h"

namespace train_ctr {

// The state of a trainer that outlives it.
class TrainerState {
 public:
  explicit TrainerState(Trainer* trainer) : progress_(trainer) {}

  // Registers all of it.
  absl::Status Register(ckptdb::ModelState* model);

 private:
  // The options, the step counter and the reader's position. It refuses those
  // of another trainer, and is loaded first.
  class Progress : public ckptdb::ModelState::Object {
   public:
    explicit Progress(Trainer* trainer) : trainer_(trainer) {}
    absl::StatusOr<std::string> Save() override { return trainer_->progress(); }
    absl::Status Load(absl::string_view bytes) override {
      return trainer_->RestoreProgress(bytes);
    }
    Trainer* trainer() const { return trainer_; }

   private:
    Trainer* const trainer_;
  };

  Progress progress_;
};

}  // namespace train_ctr

#endif  // CKPTDB_EXAMPLES_TRAIN_CTR_TRAINER_STATE_H_
