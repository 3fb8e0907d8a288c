// SPDX-License-Identifier: Apache-2.0
// The layout of a tensor in device memory; internal to cuda/.
#ifndef CKPTDB_CUDA_TENSORS_TENSOR_PLACE_H_
#define CKPTDB_CUDA_TENSORS_TENSOR_PLACE_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "manager/model_state.h"

namespace ckptdb::internal {

struct TensorPlace {
  char* data = nullptr;
  // Bytes of a row, an index of the first dimension, and from one row to the
  // next. stride_bytes 0: the tensor is contiguous.
  uint64_t row_bytes = 0;
  uint64_t stride_bytes = 0;

  // `bytes` is the size of all elements.
  static TensorPlace Of(const TensorState& tensor, uint64_t bytes);
};

// Returns the size of all elements. Returns InvalidArgument if `data` is null,
// or if rows overlap or exceed the address space.
absl::StatusOr<uint64_t> CheckTensorPlace(const TensorState& tensor);
// Returns the bytes from the tensor's first to its last. `bytes` is the size of
// its elements, which is not 0.
absl::StatusOr<uint64_t> SpanOfTensor(const TensorState& tensor,
                                      uint64_t bytes);

}  // namespace ckptdb::internal

#endif  // CKPTDB_CUDA_TENSORS_TENSOR_PLACE_H_
