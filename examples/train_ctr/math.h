// SPDX-License-Identifier: Apache-2.0
// The mathematics of the model, for the host and for kernels: the elements of
// embeddings, and the operations of dense layers, each of which makes a matrix
// of sums whose elements do not depend on one another.
//
// The same functions run on both, and give the same bits: sums are made in a
// stated order, and neither compiler may contract a product and a sum to one
// rounding (-ffp-contract=off, --fmad=false).
//
//   ForwardLayer layer = {...};
//   RunTiles(layer);                             // on the host
//   layer.Run<1>(i / columns, i % columns);      // one thread of a kernel
//
// Run<kWidth>(row, column) makes the kWidth elements of a row from `column` on.
// Each sum has its terms in the same order for every kWidth, so that a tile of
// several elements, which the host adds up at once, has the bits that a thread
// for each element gives.
#ifndef CKPTDB_EXAMPLES_TRAIN_CTR_MATH_H_
#define CKPTDB_EXAMPLES_TRAIN_CTR_MATH_H_

#include <cmath>
#include <cstdint>

#include "train_ctr/random.h"

namespace train_ctr {

// Returns the first value of element `d` of the embedding of `id`: uniform in
// [-0.05, 0.05). It depends on the arguments alone, so that rows may be made in
// any order.
TRAIN_CTR_HOST_DEVICE inline float InitialEmbedding(uint64_t table_seed,
                                                    int64_t id, uint64_t d) {
  constexpr float kRange = 0.05f;
  const uint64_t bits =
      Random::At(Mix(table_seed, static_cast<uint64_t>(id)), d);
  return kRange * static_cast<float>(2 * ToUnit(bits) - 1);
}

// Makes a step of Adagrad with the gradient of one element.
TRAIN_CTR_HOST_DEVICE inline void AdagradStep(float gradient,
                                              float learning_rate, float* sum,
                                              float* value) {
  constexpr float kEpsilon = 1e-8f;
  *sum += gradient * gradient;
  *value -= learning_rate * gradient / (sqrtf(*sum) + kEpsilon);
}

// output[e][o] = bias[o] + the sum over i of input[e][i] * weight[i][o], in the
// order of i; not less than 0 with `relu`.
struct ForwardLayer {
  const float* input = nullptr;   // examples x inputs
  const float* weight = nullptr;  // inputs x outputs
  const float* bias = nullptr;    // outputs
  uint64_t examples = 0;
  uint64_t inputs = 0;
  uint64_t outputs = 0;
  bool relu = false;
  float* output = nullptr;  // examples x outputs

  TRAIN_CTR_HOST_DEVICE uint64_t rows() const { return examples; }
  TRAIN_CTR_HOST_DEVICE uint64_t columns() const { return outputs; }

  template <uint32_t kWidth>
  TRAIN_CTR_HOST_DEVICE void Run(uint64_t e, uint64_t o) const {
    float sums[kWidth];
    TRAIN_CTR_UNROLL
    for (uint32_t t = 0; t < kWidth; ++t) sums[t] = bias[o + t];
    for (uint64_t i = 0; i < inputs; ++i) {
      const float x = input[e * inputs + i];
      const float* const weights = weight + i * outputs + o;
      TRAIN_CTR_UNROLL
      for (uint32_t t = 0; t < kWidth; ++t) sums[t] += x * weights[t];
    }
    float* const out = output + e * outputs + o;
    TRAIN_CTR_UNROLL
    for (uint32_t t = 0; t < kWidth; ++t) {
      out[t] = relu && sums[t] < 0 ? 0 : sums[t];
    }
  }
};

// input_gradient[e][i] = the sum over o of weight[i][o] * output_gradient[e][o]
// in the order of o; 0 where the input was cut off by the ReLU before.
struct BackwardLayer {
  const float* weight = nullptr;           // inputs x outputs
  const float* output_gradient = nullptr;  // examples x outputs
  // The inputs, which are outputs of a ReLU; null if they are not.
  const float* relu_input = nullptr;
  uint64_t examples = 0;
  uint64_t inputs = 0;
  uint64_t outputs = 0;
  float* input_gradient = nullptr;  // examples x inputs

  TRAIN_CTR_HOST_DEVICE uint64_t rows() const { return examples; }
  TRAIN_CTR_HOST_DEVICE uint64_t columns() const { return inputs; }

  template <uint32_t kWidth>
  TRAIN_CTR_HOST_DEVICE void Run(uint64_t e, uint64_t i) const {
    const float* const out = output_gradient + e * outputs;
    float sums[kWidth] = {};
    for (uint64_t o = 0; o < outputs; ++o) {
      TRAIN_CTR_UNROLL
      for (uint32_t t = 0; t < kWidth; ++t) {
        sums[t] += weight[(i + t) * outputs + o] * out[o];
      }
    }
    const uint64_t first = e * inputs + i;
    TRAIN_CTR_UNROLL
    for (uint32_t t = 0; t < kWidth; ++t) {
      const bool cut = relu_input != nullptr && relu_input[first + t] <= 0;
      input_gradient[first + t] = cut ? 0 : sums[t];
    }
  }
};

// gradient[i][o] = the sum over e of input[e][i] * output_gradient[e][o], in
// the order of e. A bias is the weight of one input that is always 1.
struct WeightGradient {
  const float* input = nullptr;            // examples x inputs; null: ones
  const float* output_gradient = nullptr;  // examples x outputs
  uint64_t examples = 0;
  uint64_t inputs = 0;
  uint64_t outputs = 0;
  float* gradient = nullptr;  // inputs x outputs

  TRAIN_CTR_HOST_DEVICE uint64_t rows() const { return inputs; }
  TRAIN_CTR_HOST_DEVICE uint64_t columns() const { return outputs; }

  template <uint32_t kWidth>
  TRAIN_CTR_HOST_DEVICE void Run(uint64_t i, uint64_t o) const {
    float sums[kWidth] = {};
    for (uint64_t e = 0; e < examples; ++e) {
      const float x = input == nullptr ? 1 : input[e * inputs + i];
      const float* const out = output_gradient + e * outputs + o;
      TRAIN_CTR_UNROLL
      for (uint32_t t = 0; t < kWidth; ++t) sums[t] += x * out[t];
    }
    float* const to = gradient + i * outputs + o;
    TRAIN_CTR_UNROLL
    for (uint32_t t = 0; t < kWidth; ++t) to[t] = sums[t];
  }
};

// A step of Adam of `count` parameters. `scale` is the learning rate with the
// corrections of the step.
struct AdamStep {
  static constexpr float kBeta1 = 0.9f;
  static constexpr float kBeta2 = 0.999f;
  static constexpr float kEpsilon = 1e-8f;

  float scale = 0;
  uint64_t count = 0;
  const float* gradient = nullptr;
  float* m = nullptr;
  float* v = nullptr;
  float* value = nullptr;

  TRAIN_CTR_HOST_DEVICE uint64_t rows() const { return 1; }
  TRAIN_CTR_HOST_DEVICE uint64_t columns() const { return count; }

  template <uint32_t kWidth>
  TRAIN_CTR_HOST_DEVICE void Run(uint64_t /*row*/, uint64_t first) const {
    TRAIN_CTR_UNROLL
    for (uint64_t i = first; i < first + kWidth; ++i) {
      const float g = gradient[i];
      m[i] = kBeta1 * m[i] + (1 - kBeta1) * g;
      v[i] = kBeta2 * v[i] + (1 - kBeta2) * g * g;
      value[i] -= scale * m[i] / (sqrtf(v[i]) + kEpsilon);
    }
  }
};

// Makes all elements on the host, in tiles that its registers have room for.
template <typename Operation>
void RunTiles(const Operation& operation) {
  constexpr uint32_t kTile = 8;
  for (uint64_t row = 0; row < operation.rows(); ++row) {
    uint64_t column = 0;
    for (; column + kTile <= operation.columns(); column += kTile) {
      operation.template Run<kTile>(row, column);
    }
    for (; column < operation.columns(); ++column) {
      operation.template Run<1>(row, column);
    }
  }
}

}  // namespace train_ctr

#endif  // CKPTDB_EXAMPLES_TRAIN_CTR_MATH_H_
