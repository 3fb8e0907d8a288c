// SPDX-License-Identifier: Apache-2.0
// A small multi-layer perceptron: dense layers, ReLU between them, one logit
// out. Gradients by hand, weights by Adam.
#ifndef CKPTDB_EXAMPLES_TRAIN_CTR_MLP_H_
#define CKPTDB_EXAMPLES_TRAIN_CTR_MLP_H_

#include <ckptdb/manager/model_state.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "train_ctr/machine.h"

namespace train_ctr {

// A perceptron of several layers, in the memory of a machine. The same calls
// give the same bits on any machine. Not thread-safe.
class Mlp {
 public:
  // A weight matrix or a bias with what Adam keeps for it.
  struct Parameter {
    std::string name;
    std::vector<int64_t> shape;
    size_t count = 0;
    float* values = nullptr;
    float* m = nullptr;
    float* v = nullptr;
    float* gradient = nullptr;
  };

  // Layers of inputs -> hidden[0] -> ... -> 1, for up to `max_examples`. First
  // weights are uniform in +-sqrt(6 / inputs of the layer), drawn from the
  // seed; biases are zero. `machine` outlives it.
  static absl::StatusOr<std::unique_ptr<Mlp>> Make(
      Machine* machine, size_t inputs, const std::vector<size_t>& hidden,
      size_t max_examples, uint64_t seed);

  // Returns one logit for each of the `examples` rows of `input` (examples x
  // inputs), which is in the machine's memory. Keeps what Backward needs.
  absl::StatusOr<std::vector<float>> Forward(const float* input,
                                             size_t examples);
  // Takes the gradient of the loss by each logit of the last Forward, and sets
  // the gradients of all weights and `input_gradient` (examples x inputs).
  absl::Status Backward(const float* input,
                        const std::vector<float>& logit_gradient,
                        float* input_gradient);
  // Makes one step of Adam with the gradients that were set last.
  absl::Status ApplyAdam(float learning_rate);

  // All state, whose arrays are in the machine's memory.
  struct State {
    std::vector<Parameter> parameters;  // a weight and a bias of each layer
    int64_t adam_step = 0;
  };
  const State& state() const { return state_; }
  State& state() { return state_; }
  // Registers all state for checkpoints.
  absl::Status Register(ckptdb::ModelState* state);
  // Returns a copy of the state's bytes, by name.
  absl::StatusOr<std::map<std::string, std::string>> Read() const;

 private:
  struct Layer {
    size_t inputs = 0;
    size_t outputs = 0;
    float* output = nullptr;  // after the ReLU, if the layer has one
    float* output_gradient = nullptr;
  };

  explicit Mlp(Machine* machine) : machine_(machine) {}
  absl::Status AddLayer(size_t inputs, size_t outputs, size_t max_examples);
  absl::Status AddParameter(std::string name, std::vector<int64_t> shape,
                            const std::vector<float>& first);
  const Parameter& weight(size_t layer) const {
    return state_.parameters[2 * layer];
  }
  const Parameter& bias(size_t layer) const {
    return state_.parameters[2 * layer + 1];
  }

  Machine* const machine_;
  std::vector<Layer> layers_;
  State state_;
};

}  // namespace train_ctr

#endif  // CKPTDB_EXAMPLES_TRAIN_CTR_MLP_H_
