// SPDX-License-Identifier: Apache-2.0
// A model in host memory, whose rows and gradients are divided among ranks.
#ifndef CKPTDB_EXAMPLES_TRAIN_CTR_HOST_MODEL_H_
#define CKPTDB_EXAMPLES_TRAIN_CTR_HOST_MODEL_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "train_ctr/embedding_table.h"
#include "train_ctr/mlp.h"
#include "train_ctr/model.h"
#include "train_ctr/row_exchange.h"
#include "train_ctr/state_view.h"

namespace train_ctr {

class HostModel final : public Model {
 public:
  // `own` and `layout` outlive it.
  HostModel(const TrainerOptions& options, const FieldLayout& layout,
            examples::Ranks* own);

  absl::StatusOr<std::vector<float>> Forward(const Batch& share,
                                             int64_t step) override;
  absl::StatusOr<std::vector<float>> Predict(const Batch& share) override;
  absl::Status Backward(const std::vector<float>& logit_gradient) override;
  absl::Status EraseUnseenSince(int64_t step) override;
  size_t rows() const override;
  absl::StatusOr<StateView> View() override;
  absl::Status Register(ckptdb::ModelState* state) override;
  absl::Status OnRestored() override { return absl::OkStatus(); }

  std::vector<EmbeddingTable>& tables() { return tables_; }
  std::vector<TensorView> tensors() { return mlp_.State(); }

 private:
  // Runs the perceptron over inputs_; all ranks get the logits of all.
  absl::StatusOr<std::vector<float>> GatherLogits(size_t examples);
  absl::Status SumGradients();

  const TrainerOptions options_;
  examples::Ranks* const own_;
  std::vector<EmbeddingTable> tables_;
  RowExchange row_exchange_;
  Mlp mlp_;

  // Scratch of a step.
  std::vector<float> inputs_;  // examples of the share x fields x dim
  std::vector<float> input_gradient_;
};

}  // namespace train_ctr

#endif  // CKPTDB_EXAMPLES_TRAIN_CTR_HOST_MODEL_H_
