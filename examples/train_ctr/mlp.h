// SPDX-License-Identifier: Apache-2.0
// A small multi-layer perceptron: dense layers, ReLU between them, one logit
// out. Gradients by hand, weights by Adam.
#ifndef CKPTDB_EXAMPLES_TRAIN_CTR_MLP_H_
#define CKPTDB_EXAMPLES_TRAIN_CTR_MLP_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "train_ctr/math/layer_math.h"
#include "train_ctr/state_view.h"

namespace train_ctr {

struct AdamOptions {
  float learning_rate = 0.001f;
  float beta1 = 0.9f;
  float beta2 = 0.999f;
  float epsilon = 1e-8f;
};

// Counts a step of Adam, from 1, and returns the part of it that is the same
// for all parameters.
AdamStep NextAdamStep(const AdamOptions& options, int64_t* step);

// A perceptron of several layers. The same calls give the same bits. Not
// thread-safe.
class Mlp {
 public:
  // Layers of inputs -> hidden[0] -> ... -> 1. First weights are uniform in
  // +-sqrt(6 / inputs of the layer), drawn from the seed; biases are zero.
  Mlp(size_t inputs, const std::vector<size_t>& hidden, uint64_t seed);

  size_t inputs() const { return layers_.front().inputs; }

  // Returns one logit for each of the `examples` rows of `input` (examples x
  // inputs()), valid until the next call. Keeps what Backward needs.
  const std::vector<float>& Forward(const float* input, size_t examples);

  // Takes the gradient of the loss by each logit of the last Forward, and sets
  // the gradients of all weights and `input_gradient` (examples x inputs()).
  void Backward(const float* input, const std::vector<float>& logit_gradient,
                std::vector<float>* input_gradient);

  // The same in parts, for ranks that each have some examples of a batch. A
  // gradient of a weight is a sum over the examples. It is made of the inputs
  // and output gradients of each layer, its factors. Each rank sums those of a
  // part of the weights, over the examples of all ranks in order: so the sums
  // have the same bits on any number of ranks.
  //
  //   mlp.BackwardExamples(logit_gradient, &input_gradient);
  //   for each rank r: send Factors(input, {r, ranks}) to r
  //   send SumPart({rank, ranks}, factors of all ranks) to all
  //   mlp.SetGradients(sums of all ranks);
  struct Part {
    size_t number = 0;
    size_t of = 1;
  };
  void BackwardExamples(const std::vector<float>& logit_gradient,
                        std::vector<float>* input_gradient);
  std::vector<float> Factors(const float* input, Part part) const;
  // Sets the gradients of the biases, and returns those of part of the weights.
  std::vector<float> SumPart(Part part,
                             const std::vector<std::vector<float>>& factors);
  void SetGradients(const std::vector<std::vector<float>>& parts);

  // Makes one step of Adam with the gradients that were set last.
  void ApplyAdam(const AdamOptions& options);

  // Returns all state: weights, biases, Adam's moments and its step count.
  std::vector<TensorView> State();
  // Gradients that were set last, in the order of the weights in State().
  std::vector<TensorView> Gradients();

 private:
  // A weight matrix or a bias with what Adam keeps for it.
  struct Parameter {
    std::vector<float> values;
    std::vector<float> gradient;
    std::vector<float> m;
    std::vector<float> v;
  };
  struct Layer {
    size_t inputs;
    size_t outputs;
    Parameter weight;  // inputs x outputs
    Parameter bias;
    std::vector<float> output;  // after the ReLU, if the layer has one
    std::vector<float> output_gradient;

    // The inputs of a part are [begin(part), begin(the next part)).
    size_t begin(Part part) const { return inputs * part.number / part.of; }
    size_t width(Part part) const {
      return begin({part.number + 1, part.of}) - begin(part);
    }
  };

  static Parameter MakeParameter(size_t size);
  // Adds the gradients of some examples to those of the biases, and to `sums`
  // of a part of the weights. Moves `factors` past those of the layer.
  static void AddFactors(Part part, size_t examples, const float** factors,
                         float* sums, Layer* layer);
  size_t FactorsOfExample(Part part) const;

  std::vector<Layer> layers_;
  size_t examples_ = 0;  // of the last Backward
  int64_t adam_step_ = 0;
};

}  // namespace train_ctr

#endif  // CKPTDB_EXAMPLES_TRAIN_CTR_MLP_H_
