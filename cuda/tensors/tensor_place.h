// Where the bytes of a tensor are in the memory of a device; internal to cuda/.
#ifndef CKPTDB_CUDA_TENSORS_TENSOR_PLACE_H_
#define CKPTDB_CUDA_TENSORS_TENSOR_PLACE_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "ckptdb/manager/model_state.h"

namespace ckptdb::internal {

struct TensorPlace {
  char* data = nullptr;
  // The bytes of the rows, the indices of the first dimension, and those from
  // one row to the next. If stride_bytes is 0, the tensor is contiguous.
  uint64_t row_bytes = 0;
  uint64_t stride_bytes = 0;

  // `bytes` is what all of its elements have.
  static TensorPlace Of(const TensorState& tensor, uint64_t bytes);
};

// Returns the bytes of all elements. Returns InvalidArgument if the tensor has
// no memory, or rows that overlap or go beyond all addresses.
absl::StatusOr<uint64_t> CheckTensorPlace(const TensorState& tensor);
// Returns the bytes from its first to its last; `bytes`, which its elements
// have, is not 0.
absl::StatusOr<uint64_t> SpanOfTensor(const TensorState& tensor,
                                      uint64_t bytes);

}  // namespace ckptdb::internal

#endif  // CKPTDB_CUDA_TENSORS_TENSOR_PLACE_H_
