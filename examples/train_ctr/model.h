// SPDX-License-Identifier: Apache-2.0
// The model that a trainer trains: embedding tables and a perceptron, with the
// state of their optimizers. It is in host memory, divided among ranks, or in
// the memory of a GPU.
//
//   std::vector<float> logits = *model->Forward(share, step);
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
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "ranks/ranks.h"
#include "train_ctr/embedding_table.h"
#include "train_ctr/example.h"
#include "train_ctr/state_view.h"
#include "train_ctr/trainer_options.h"

namespace train_ctr {

// One rank's part of a model. All ranks make the same calls in the same order.
// After an error of a call the model must not be used further. Not thread-safe.
class Model {
 public:
  virtual ~Model() = default;

  // Returns the logits of the examples of all ranks, of which `share` are this
  // rank's. Counts the sight of their ids at `step`, and makes the rows that do
  // not exist.
  virtual absl::StatusOr<std::vector<float>> Forward(const Batch& share,
                                                     int64_t step) = 0;
  // The same without changing the model: ids that have no row count as zeros.
  virtual absl::StatusOr<std::vector<float>> Predict(const Batch& share) = 0;
  // Takes the gradient of the loss by each logit of the share of the last
  // Forward, and makes a step of the optimizers: Adagrad's of the rows of all
  // ids, Adam's of the perceptron.
  virtual absl::Status Backward(const std::vector<float>& logit_gradient) = 0;
  // Erases the rows last seen before `step`.
  virtual absl::Status EraseUnseenSince(int64_t step) = 0;

  // Returns the number of rows of all tables of this rank.
  virtual size_t rows() const = 0;
  // Returns the tables and tensors, which are good until the next call.
  virtual absl::StatusOr<StateView> View() = 0;
  // Registers the tables and tensors for checkpoints.
  virtual absl::Status Register(ckptdb::ModelState* state) = 0;
  // A manager has restored registered tables or tensors.
  virtual absl::Status OnRestored() = 0;
};

// Returns the options of the tables of a model, in the order of the layout.
std::vector<EmbeddingTableOptions> TablesOf(const TrainerOptions& options,
                                            const FieldLayout& layout);

// Returns a new model in host memory, or in that of the GPU that the options
// name, by NewDeviceModel (device/new_device_model.h). Returns InvalidArgument
// for a GPU with several ranks.
absl::StatusOr<std::unique_ptr<Model>> NewModel(const TrainerOptions& options,
                                                const FieldLayout& layout,
                                                examples::Ranks* own);

}  // namespace train_ctr

#endif  // CKPTDB_EXAMPLES_TRAIN_CTR_MODEL_H_
