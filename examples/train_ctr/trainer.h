// The training loop's state and its one step: sparse features through
// embedding tables into the perceptron, log loss, Adagrad and Adam back.
//
// The same options, log and number of steps give the same bits, whether or not
// the state was saved and restored in between, and on any number of ranks. The
// state is: tables(), tensors() and progress(), nothing else.
//
// With several ranks all read the same log, and each trains its share of each
// batch. The rows of tables are divided among them; tensors and progress are
// the same on all.
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
#include "train_ctr/embedding_table.h"
#include "train_ctr/metrics.h"
#include "train_ctr/mlp.h"
#include "train_ctr/reader.h"
#include "train_ctr/row_exchange.h"
#include "train_ctr/tensor.h"

namespace train_ctr {

struct TrainerOptions {
  uint64_t seed = 1;
  // Examples of a step. Default: 256.
  size_t batch = 256;
  // Floats of an embedding. Default: 16.
  size_t dim = 16;
  // Widths of the perceptron's hidden layers. Default: 64, 32.
  std::vector<size_t> hidden = {64, 32};
  // Adagrad's, for embeddings. Default: 0.02.
  float sparse_learning_rate = 0.02f;
  // Adam's, for the perceptron. Default: 0.001.
  float dense_learning_rate = 0.001f;
  // Rows not seen for more than this many steps are erased; looked for every
  // eighth of it. 0 keeps all. Default: 0.
  int64_t erase_after_steps = 0;
  // How rows are divided among ranks. It changes no bit of the state.
  Sharding sharding = Sharding::kSlices;
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
  // Returns InvalidArgument for an option out of its range. `own` is this rank
  // and outlives the trainer; null stands for one rank alone.
  static absl::StatusOr<std::unique_ptr<Trainer>> Create(
      const TrainerOptions& options, std::unique_ptr<Reader> reader,
      examples::Ranks* own = nullptr);

  // Trains one batch, and returns its mean log loss before the update. After an
  // error the trainer must not be used further.
  absl::StatusOr<double> Step();
  // Evaluates over the held-out tail without changing state. Unseen ids count
  // as zeros.
  absl::StatusOr<Evaluation> Evaluate();
  // The same by batches: false when there is none left.
  EvaluationProgress BeginEvaluation() const;
  absl::StatusOr<bool> EvaluateBatch(EvaluationProgress* progress);

  // The options that shape the state, for people and for comparison.
  std::string identity() const;
  int64_t step() const { return step_; }
  uint64_t epoch() const { return reader_->epoch(); }
  // The rows of this rank.
  size_t rows() const;
  examples::Ranks* ranks() const { return own_; }
  Sharding sharding() const { return options_.sharding; }

  std::vector<EmbeddingTable>& tables() { return tables_; }
  const std::vector<EmbeddingTable>& tables() const { return tables_; }
  std::vector<TensorView> tensors() { return mlp_.State(); }
  // The options, the step counter and the reader's position, as bytes.
  std::string progress() const;
  // Returns FailedPrecondition if the progress is of other options or another
  // log, and DataLoss if it is no progress; the trainer is then as it was.
  absl::Status RestoreProgress(absl::string_view progress);

 private:
  Trainer(const TrainerOptions& options, std::unique_ptr<Reader> reader,
          examples::Ranks* own);
  // This rank's share of the batch, whose logits follow; all ranks get all.
  void TakeShare();
  absl::StatusOr<std::vector<float>> GatherLogits();
  double LossGradient(const std::vector<float>& logits);
  absl::Status SumGradients();
  void EraseUnseen();

  TrainerOptions options_;
  std::unique_ptr<Reader> reader_;
  const std::unique_ptr<examples::Ranks> alone_;  // null if ranks were given
  examples::Ranks* const own_;
  std::vector<EmbeddingTable> tables_;
  RowExchange row_exchange_;
  Mlp mlp_;
  int64_t step_ = 0;

  // Scratch of a step.
  Batch batch_;
  Batch share_;
  size_t share_begin_ = 0;     // of the batch
  std::vector<float> inputs_;  // examples of the share x fields x dim
  std::vector<float> input_gradient_;
  std::vector<float> logit_gradient_;
};

}  // namespace train_ctr

#endif  // CKPTDB_EXAMPLES_TRAIN_CTR_TRAINER_H_
