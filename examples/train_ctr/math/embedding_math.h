// SPDX-License-Identifier: Apache-2.0
// The mathematics of one element of an embedding: its first value, and a step
// of Adagrad.
#ifndef CKPTDB_EXAMPLES_TRAIN_CTR_MATH_EMBEDDING_MATH_H_
#define CKPTDB_EXAMPLES_TRAIN_CTR_MATH_EMBEDDING_MATH_H_

#include <cmath>
#include <cstdint>

#include "train_ctr/math/host_device.h"
#include "train_ctr/random.h"

namespace train_ctr {

// Returns the first value of element `d` of the embedding of `id`: uniform in
// [-init_range, init_range). It depends on the arguments alone, so that rows
// may be made in any order.
TRAIN_CTR_HOST_DEVICE inline float InitialEmbedding(uint64_t table_seed,
                                                    int64_t id, uint64_t d,
                                                    float init_range) {
  const uint64_t bits =
      Random::At(Mix(table_seed, static_cast<uint64_t>(id)), d);
  return init_range * static_cast<float>(2 * ToUnit(bits) - 1);
}

// Makes a step of Adagrad with the gradient of one element.
TRAIN_CTR_HOST_DEVICE inline void AdagradStep(float gradient,
                                              float learning_rate, float* sum,
                                              float* value) {
  constexpr float kEpsilon = 1e-8f;
  *sum += gradient * gradient;
  *value -= learning_rate * gradient / (sqrtf(*sum) + kEpsilon);
}

}  // namespace train_ctr

#endif  // CKPTDB_EXAMPLES_TRAIN_CTR_MATH_EMBEDDING_MATH_H_
