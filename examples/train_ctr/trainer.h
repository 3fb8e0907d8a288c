// The training loop's state and its one step: sparse features through
// embedding tables into the perceptron, log loss, Adagrad and Adam back.
//
// The same options, log and number of steps give the same bits, whether or not
// the state was saved and restored in between. The state is: tables(),
// tensors() and progress(), nothing else.
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
#include "train_ctr/embedding_table.h"
#include "train_ctr/metrics.h"
#include "train_ctr/mlp.h"
#include "train_ctr/reader.h"
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
};

// An evaluation that is under way.
struct EvaluationProgress {
  ClickMetrics metrics;
  LogPosition position;
};

// A trainer of a click model. Not thread-safe.
class Trainer {
 public:
  // Returns InvalidArgument for an option out of its range.
  static absl::StatusOr<std::unique_ptr<Trainer>> Create(
      const TrainerOptions& options, std::unique_ptr<Reader> reader);

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
  size_t rows() const;

  std::vector<EmbeddingTable>& tables() { return tables_; }
  const std::vector<EmbeddingTable>& tables() const { return tables_; }
  std::vector<TensorView> tensors() { return mlp_.State(); }
  // The options, the step counter and the reader's position, as bytes.
  std::string progress() const;
  // Returns FailedPrecondition if the progress is of other options or another
  // log, and DataLoss if it is no progress; the trainer is then as it was.
  absl::Status RestoreProgress(absl::string_view progress);

 private:
  // The gradients of the rows of one table in one batch, in the order in
  // which the batch first names them.
  struct RowGradients {
    std::vector<EmbeddingTable::Row> rows;
    std::vector<float> sums;             // rows.size() x dim
    std::vector<uint32_t> place_of_row;  // by row, kNoPlace outside a batch
  };
  static constexpr uint32_t kNoPlace = UINT32_MAX;

  Trainer(const TrainerOptions& options, std::unique_ptr<Reader> reader);
  size_t fields() const { return reader_->layout().fields(); }
  size_t table_of(size_t place) const {
    return reader_->layout().table_of_field[place % fields()];
  }
  void TouchRows();
  void LookUpHeldOut();
  double LossGradient(const std::vector<float>& logits);
  void SumRowGradients();
  void ApplyRowGradients();
  void EraseUnseen();

  TrainerOptions options_;
  std::unique_ptr<Reader> reader_;
  std::vector<EmbeddingTable> tables_;
  Mlp mlp_;
  int64_t step_ = 0;

  // Scratch of a step.
  Batch batch_;
  std::vector<EmbeddingTable::Row> rows_;  // examples x fields
  std::vector<float> inputs_;              // examples x fields x dim
  std::vector<float> input_gradient_;
  std::vector<float> logit_gradient_;
  std::vector<RowGradients> row_gradients_;  // by table
};

}  // namespace train_ctr

#endif  // CKPTDB_EXAMPLES_TRAIN_CTR_TRAINER_H_
