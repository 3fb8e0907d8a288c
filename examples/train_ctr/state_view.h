// SPDX-License-Identifier: Apache-2.0
// A view of the trainer's state: its dense tensors, and all of it.
#ifndef CKPTDB_EXAMPLES_TRAIN_CTR_STATE_VIEW_H_
#define CKPTDB_EXAMPLES_TRAIN_CTR_STATE_VIEW_H_

#include <ckptdb/manager/model_state.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "train_ctr/embedding_table.h"

namespace train_ctr {

enum class ElementType { kFloat32, kInt64 };

// Points into the object that gave it, and is good as long as that lives.
struct TensorView {
  std::string name;
  ElementType type;
  std::vector<int64_t> shape;  // empty for a scalar
  void* values;

  size_t bytes() const {
    size_t count = type == ElementType::kFloat32 ? 4 : 8;
    for (const int64_t extent : shape) count *= static_cast<size_t>(extent);
    return count;
  }
  ckptdb::DType dtype() const {
    return type == ElementType::kFloat32 ? ckptdb::DType::kF32
                                         : ckptdb::DType::kI64;
  }
  // Returns the tensor as a manager saves and restores it.
  ckptdb::TensorState state() const {
    ckptdb::TensorState state;
    state.dtype = dtype();
    state.shape = shape;
    state.data = values;
    return state;
  }
};

// The name of the progress in a step, a blob of rank 0.
inline constexpr absl::string_view kProgress = "progress";

// A view of all state of a trainer, wherever it is.
struct StateView {
  std::vector<const EmbeddingTable*> tables;
  std::vector<TensorView> tensors;
  std::string progress;
};

}  // namespace train_ctr

#endif  // CKPTDB_EXAMPLES_TRAIN_CTR_STATE_VIEW_H_
