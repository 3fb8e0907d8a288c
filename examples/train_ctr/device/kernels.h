// SPDX-License-Identifier: Apache-2.0
// The kernels of the model in GPU memory: the operations of math.h, and those
// on the rows of a table, each as the work of one thread on one element.
//
// Threads of one launch write different elements, and sums are made by one
// thread each in a stated order: no result depends on which thread runs first.
#ifndef CKPTDB_EXAMPLES_TRAIN_CTR_DEVICE_KERNELS_H_
#define CKPTDB_EXAMPLES_TRAIN_CTR_DEVICE_KERNELS_H_

#include <cuda_runtime_api.h>

#include <cstdint>

#include "train_ctr/math.h"

namespace train_ctr {

// The id of rows that hold nothing.
inline constexpr int64_t kFreeId = INT64_MIN;

// The arrays of a table, by row number.
struct TableArrays {
  uint64_t rows = 0;
  uint64_t dim = 0;
  int64_t* ids = nullptr;
  float* embedding = nullptr;    // rows x dim
  float* adagrad_sum = nullptr;  // rows x dim
  int64_t* freq = nullptr;
  int64_t* last_step = nullptr;
};

// A row that a batch names, with its places in it.
struct BatchRow {
  int64_t id = 0;
  int32_t row = 0;
  int32_t is_new = 0;
  uint32_t first = 0;  // of the list of places
  uint32_t places = 0;
};

// A place of a batch, whose embedding goes to inputs[place * dim]. Places of a
// row follow one another in ascending order.
struct BatchPlace {
  static constexpr int32_t kNoRow = -1;

  uint32_t place = 0;
  int32_t row = kNoRow;
};

// Makes all rows ones that hold nothing. One thread a row.
struct ClearIds {
  TableArrays table;

  TRAIN_CTR_HOST_DEVICE uint64_t count() const { return table.rows; }
  TRAIN_CTR_HOST_DEVICE void Run(uint64_t row) const {
    table.ids[row] = kFreeId;
  }
};

// Updates frequency and last step of a batch's rows, initializes new rows, and
// lists row numbers. One thread an element of an embedding.
struct TouchRows {
  TableArrays table;
  const BatchRow* rows = nullptr;
  uint64_t row_count = 0;
  int64_t step = 0;
  uint64_t table_seed = 0;
  int32_t* listed = nullptr;  // row_count

  TRAIN_CTR_HOST_DEVICE uint64_t count() const { return row_count * table.dim; }
  TRAIN_CTR_HOST_DEVICE void Run(uint64_t i) const {
    const uint64_t d = i % table.dim;
    const BatchRow& at = rows[i / table.dim];
    const auto row = static_cast<uint64_t>(at.row);
    if (at.is_new != 0) {
      table.embedding[row * table.dim + d] =
          InitialEmbedding(table_seed, at.id, d);
      table.adagrad_sum[row * table.dim + d] = 0;
    }
    if (d != 0) return;
    table.ids[row] = at.id;
    table.freq[row] = (at.is_new != 0 ? 0 : table.freq[row]) + at.places;
    table.last_step[row] = step;
    listed[i / table.dim] = at.row;
  }
};

// Copies the embeddings of the places of a batch to the inputs of the
// perceptron; places without a row get zeros. One thread an element.
struct GatherEmbeddings {
  TableArrays table;
  const BatchPlace* places = nullptr;
  uint64_t place_count = 0;
  float* inputs = nullptr;

  TRAIN_CTR_HOST_DEVICE uint64_t count() const {
    return place_count * table.dim;
  }
  TRAIN_CTR_HOST_DEVICE void Run(uint64_t i) const {
    const uint64_t d = i % table.dim;
    const BatchPlace& at = places[i / table.dim];
    inputs[at.place * table.dim + d] =
        at.row == BatchPlace::kNoRow
            ? 0
            : table.embedding[static_cast<uint64_t>(at.row) * table.dim + d];
  }
};

// Makes a step of Adagrad of each row of a batch, with the sum of the gradients
// of its places in ascending order. One thread an element.
struct AdagradRows {
  TableArrays table;
  const BatchRow* rows = nullptr;
  uint64_t row_count = 0;
  const BatchPlace* places = nullptr;
  const float* input_gradient = nullptr;
  float learning_rate = 0;

  TRAIN_CTR_HOST_DEVICE uint64_t count() const { return row_count * table.dim; }
  TRAIN_CTR_HOST_DEVICE void Run(uint64_t i) const {
    const uint64_t d = i % table.dim;
    const BatchRow& at = rows[i / table.dim];
    float sum = 0;
    for (uint64_t p = at.first; p < uint64_t{at.first} + at.places; ++p) {
      sum += input_gradient[places[p].place * table.dim + d];
    }
    const uint64_t element = static_cast<uint64_t>(at.row) * table.dim + d;
    AdagradStep(sum, learning_rate, &table.adagrad_sum[element],
                &table.embedding[element]);
  }
};

// Makes rows that were last seen before `step` ones that hold nothing, and says
// of each row whether it was one. One thread a row.
struct EraseRows {
  TableArrays table;
  int64_t step = 0;
  uint8_t* erased = nullptr;  // by row

  TRAIN_CTR_HOST_DEVICE uint64_t count() const { return table.rows; }
  TRAIN_CTR_HOST_DEVICE void Run(uint64_t row) const {
    const bool gone = table.ids[row] != kFreeId && table.last_step[row] < step;
    if (gone) table.ids[row] = kFreeId;
    erased[row] = gone ? 1 : 0;
  }
};

// Queues one of these, or an operation of math.h, on a stream, and returns at
// once, with cudaSuccess or the launch's error. Pointers are to device memory
// that stays valid until the work has ended.
template <typename Operation>
cudaError_t Launch(const Operation& operation, cudaStream_t stream);

}  // namespace train_ctr

#endif  // CKPTDB_EXAMPLES_TRAIN_CTR_DEVICE_KERNELS_H_
