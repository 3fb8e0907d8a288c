// SPDX-License-Identifier: Apache-2.0
#include "cuda/tensors/tensor_place.h"

#include "absl/strings/str_cat.h"
#include "cuda/runtime/buffer.h"
#include "schema/status.h"
#include "schema/types.h"

namespace ckptdb::internal {

TensorPlace TensorPlace::Of(const TensorState& tensor, uint64_t bytes) {
  TensorPlace place;
  place.data = static_cast<char*>(tensor.data);
  if (tensor.stride_bytes == 0 || tensor.shape.empty()) return place;
  const auto rows = static_cast<uint64_t>(tensor.shape[0]);
  if (rows <= 1 || tensor.stride_bytes == bytes / rows) return place;
  place.row_bytes = bytes / rows;
  place.stride_bytes = tensor.stride_bytes;
  return place;
}

absl::StatusOr<uint64_t> CheckTensorPlace(const TensorState& tensor) {
  const uint32_t element_bytes = DTypeBytes(tensor.dtype);
  CKPTDB_ASSIGN_OR_RETURN(const int64_t elements,
                          ElementCount(tensor.shape, element_bytes));
  const uint64_t bytes = static_cast<uint64_t>(elements) * element_bytes;
  if (bytes == 0) return bytes;
  if (tensor.data == nullptr) {
    return absl::InvalidArgumentError(absl::StrCat(
        "TensorState::data is null, and the tensor has ", bytes, " bytes"));
  }
  CKPTDB_RETURN_IF_ERROR(SpanOfTensor(tensor, bytes).status());
  return bytes;
}

absl::StatusOr<uint64_t> SpanOfTensor(const TensorState& tensor,
                                      uint64_t bytes) {
  if (tensor.stride_bytes == 0 || tensor.shape.empty()) return bytes;
  const auto rows = static_cast<uint64_t>(tensor.shape[0]);
  return BytesOfRows("TensorState", rows, bytes / rows, tensor.stride_bytes);
}

}  // namespace ckptdb::internal
