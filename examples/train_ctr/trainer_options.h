// SPDX-License-Identifier: Apache-2.0
// The options of a click model and its training.
#ifndef CKPTDB_EXAMPLES_TRAIN_CTR_TRAINER_OPTIONS_H_
#define CKPTDB_EXAMPLES_TRAIN_CTR_TRAINER_OPTIONS_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "train_ctr/row_exchange.h"

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

  // The number of the GPU whose memory has the model, as the CUDA runtime
  // counts them. Unset: host memory has it. It changes no bit of the state.
  std::optional<int> cuda_device = std::nullopt;
  // The rows of each table for which a GPU has memory. Default: 262,144.
  uint64_t device_rows = uint64_t{1} << 18;
};

}  // namespace train_ctr

#endif  // CKPTDB_EXAMPLES_TRAIN_CTR_TRAINER_OPTIONS_H_
