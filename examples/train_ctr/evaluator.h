// SPDX-License-Identifier: Apache-2.0
// An evaluation over the held-out tail that resumes after a crash: its progress
// is stored with the evaluated step.
#ifndef CKPTDB_EXAMPLES_TRAIN_CTR_EVALUATOR_H_
#define CKPTDB_EXAMPLES_TRAIN_CTR_EVALUATOR_H_

#include <ckptdb/manager/evaluation_state.h>

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "train_ctr/crash_drill.h"
#include "train_ctr/trainer.h"

namespace train_ctr {

// Evaluates a step over the held-out tail. Not thread-safe.
class Evaluator {
 public:
  // Makes an evaluator that saves its progress each time `save_every` batches
  // are done. Both objects outlive it.
  static absl::StatusOr<std::unique_ptr<Evaluator>> Create(
      Trainer* trainer, ckptdb::EvaluationState* state, int64_t save_every,
      std::shared_ptr<CrashDrill> crash_drill);

  // Evaluates the trainer's step, which is committed and is what the trainer
  // holds. An interrupted evaluation is resumed.
  absl::StatusOr<Evaluation> Run();

 private:
  // The trainer's place in the tail.
  class Loader : public ckptdb::IoState {
   public:
    explicit Loader(EvaluationProgress* progress) : progress_(progress) {}
    absl::StatusOr<std::string> Dump() override;
    absl::Status Load(absl::string_view bytes) override;

   private:
    EvaluationProgress* const progress_;
  };
  class Meters : public ckptdb::ModelState::Object {
   public:
    explicit Meters(EvaluationProgress* progress) : progress_(progress) {}
    absl::StatusOr<std::string> Save() override;
    absl::Status Load(absl::string_view bytes) override;

   private:
    EvaluationProgress* const progress_;
  };

  Evaluator(Trainer* trainer, ckptdb::EvaluationState* state,
            int64_t save_every, std::shared_ptr<CrashDrill> crash_drill)
      : trainer_(trainer),
        state_(state),
        save_every_(save_every),
        crash_drill_(std::move(crash_drill)) {}

  absl::Status Keep(const ckptdb::EvaluationState::Name& name);

  Trainer* const trainer_;
  ckptdb::EvaluationState* const state_;
  const int64_t save_every_;
  const std::shared_ptr<CrashDrill> crash_drill_;
  EvaluationProgress progress_;
  Loader loader_{&progress_};
  Meters meters_{&progress_};
};

}  // namespace train_ctr

#endif  // CKPTDB_EXAMPLES_TRAIN_CTR_EVALUATOR_H_
