// SPDX-License-Identifier: Apache-2.0
// The model that a trainer trains: embedding tables and a perceptron, with the
// state of their optimizers. It is in host memory, its rows divided among
// ranks, or in the memory of a GPU.
//
//   std::vector<float> logits = *model->Forward(batch, step);
//   CKPTDB_RETURN_IF_ERROR(model->Backward(logit_gradient));
//
// Both do the same mathematics in the same order, so a trainer ends with the
// same bits on either, and a step that one has saved may be restored by the
// other.
#ifndef CKPTDB_EXAMPLES_TRAIN_CTR_MODEL_H_
#define CKPTDB_EXAMPLES_TRAIN_CTR_MODEL_H_

#include <ckptdb/manager/model_state.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "ranks/ranks.h"
#include "train_ctr/log.h"
#include "train_ctr/machine.h"
#include "train_ctr/mlp.h"
#include "train_ctr/rows.h"

namespace train_ctr {

struct ModelOptions {
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
  // How rows are divided among ranks. It changes no bit of the state.
  Sharding sharding = Sharding::kSlices;

  // The number of the GPU whose memory has the model, as the CUDA runtime
  // counts them. Unset: host memory has it. It changes no bit of the state.
  std::optional<int> cuda_device = std::nullopt;
  // The rows of each table for which a GPU has memory. Default: 262,144.
  uint64_t device_rows = uint64_t{1} << 18;
};

// All state of a trainer, or of a copy of it: tables in host memory, the bytes
// of tensors by name, and the progress of the training.
struct StateView {
  std::vector<const EmbeddingTable*> tables;
  std::map<std::string, std::string> tensors;
  std::string progress;
};

// A machine, and rows in its memory.
struct ModelMemory {
  std::unique_ptr<Machine> machine;
  std::unique_ptr<Rows> rows;
};

// Returns the memory of options.cuda_device, which is set. Returns Unavailable
// if the machine has no driver or no GPU, or the program was built without
// CUDA; InvalidArgument for a number that no GPU has; and ResourceExhausted if
// the GPU has no memory for options.device_rows. Programs link
// device/device_rows.cc, or in a build without CUDA device/no_device.cc.
absl::StatusOr<ModelMemory> NewDeviceMemory(
    const ModelOptions& options,
    const std::vector<EmbeddingTableOptions>& tables,
    const FieldLayout* layout);

// One rank's part of a model. All ranks make the same calls in the same order,
// with the same batches. After an error of a call the model must not be used
// further. Not thread-safe.
class Model {
 public:
  // Returns InvalidArgument for a GPU with several ranks, and the errors of
  // NewDeviceMemory. `layout` and `own` outlive it.
  static absl::StatusOr<std::unique_ptr<Model>> Make(
      const ModelOptions& options, const FieldLayout* layout,
      examples::Ranks* own);

  // Returns the logits of the examples. Counts the sight of their ids at
  // `step`, and makes the rows that do not exist.
  absl::StatusOr<std::vector<float>> Forward(const Batch& batch, int64_t step);
  // The same without changing the model: ids that have no row count as zeros.
  absl::StatusOr<std::vector<float>> Predict(const Batch& batch);
  // Takes the gradient of the loss by each logit of the last Forward, and makes
  // a step of the optimizers: Adagrad's of the rows of all ids, Adam's of the
  // perceptron.
  absl::Status Backward(const std::vector<float>& logit_gradient);

  Rows* rows() const { return memory_.rows.get(); }
  Mlp* mlp() const { return mlp_.get(); }
  // Returns the tables and tensors, which are good until the next call.
  absl::StatusOr<StateView> View();
  // Registers the tables and tensors for checkpoints.
  absl::Status Register(ckptdb::ModelState* state);

 private:
  Model(const ModelOptions& options, ModelMemory memory)
      : options_(options), memory_(std::move(memory)) {}

  const ModelOptions options_;
  const ModelMemory memory_;
  std::unique_ptr<Mlp> mlp_;
  // Examples x fields x dim floats in the machine's memory.
  float* inputs_ = nullptr;
  float* input_gradient_ = nullptr;
};

}  // namespace train_ctr

#endif  // CKPTDB_EXAMPLES_TRAIN_CTR_MODEL_H_
