// SPDX-License-Identifier: Apache-2.0
// The training loop's state and its one step: sparse features through
// embedding tables into the perceptron, log loss, Adagrad and Adam back.
//
// The same options, log and number of steps give the same bits, whether or not
// the state was saved and restored in between, and on any number of ranks. The
// state consists of model() and progress().
//
// With several ranks all read the same log, and train the same perceptron with
// each batch. The rows of tables are divided among them; tensors and progress
// are the same on all.
#ifndef CKPTDB_EXAMPLES_TRAIN_CTR_TRAINER_H_
#define CKPTDB_EXAMPLES_TRAIN_CTR_TRAINER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "ranks/ranks.h"
#include "train_ctr/metrics.h"
#include "train_ctr/model.h"
#include "train_ctr/reader.h"

namespace train_ctr {

struct TrainerOptions : ModelOptions {
  // Rows not seen for more than this many steps are erased; looked for every
  // eighth of it. 0 keeps all. Default: 0.
  int64_t erase_after_steps = 0;
};

// An evaluation that is under way.
struct EvaluationProgress {
  ClickMetrics metrics;
  LogPosition position;
};

// A trainer of a click model, on one rank. All ranks call Step and the methods
// of evaluations in the same order. Not thread-safe.
class Trainer {
 public:
  // Returns InvalidArgument for an option out of its range, and the errors of
  // Model::Make. `own` is this rank and outlives the trainer; null stands for
  // one rank alone.
  static absl::StatusOr<std::unique_ptr<Trainer>> Create(
      const TrainerOptions& options, std::unique_ptr<Reader> reader,
      examples::Ranks* own = nullptr);

  // Trains one batch, and returns its mean log loss before the update. After an
  // error the trainer must not be used further.
  absl::StatusOr<double> Step();
  // Evaluate over the held-out tail, batch by batch, without changing state.
  // Unseen ids count as zeros. Returns false after the last batch.
  EvaluationProgress BeginEvaluation() const;
  absl::StatusOr<bool> EvaluateBatch(EvaluationProgress* progress);

  // The options that shape the state, for people and for comparison.
  std::string identity() const;
  int64_t step() const { return step_; }
  // The rows of this rank.
  size_t rows() const { return model_->rows()->size(); }
  examples::Ranks* ranks() const { return own_; }
  const TrainerOptions& options() const { return options_; }

  Model* model() const { return model_.get(); }
  // Returns all state, which is good until the next call.
  absl::StatusOr<StateView> View();
  // The options, the step counter and the reader's position, as bytes.
  std::string progress() const;
  // Returns FailedPrecondition if the progress is of other options or another
  // log, and DataLoss if it is no progress; the trainer is then as it was.
  absl::Status RestoreProgress(absl::string_view progress);

 private:
  Trainer(const TrainerOptions& options, std::unique_ptr<Reader> reader,
          examples::Ranks* own);

  const TrainerOptions options_;
  const std::unique_ptr<Reader> reader_;
  const std::unique_ptr<examples::Ranks> alone_;  // null if ranks were given
  examples::Ranks* const own_;
  std::unique_ptr<Model> model_;
  int64_t step_ = 0;
  Batch batch_;  // of the last call
};

// The name of the progress in a step, a blob of rank 0.
inline constexpr absl::string_view kProgress = "progress";

// Returns a digest of all tables, tensors and the progress, as 16 hex digits,
// whatever the order of rows and tables.
std::string StateDigest(const StateView& state);

// Returns the digest of the state of all ranks; all ranks call it. It equals
// the digest of a single rank with all rows.
absl::StatusOr<std::string> SharedDigest(Trainer& trainer);

}  // namespace train_ctr

#endif  // CKPTDB_EXAMPLES_TRAIN_CTR_TRAINER_H_
