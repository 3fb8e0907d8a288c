// SPDX-License-Identifier: Apache-2.0
// Captures tensors of a device for a save; internal to cuda/.
#ifndef CKPTDB_CUDA_TENSORS_TENSOR_CAPTURE_H_
#define CKPTDB_CUDA_TENSORS_TENSOR_CAPTURE_H_

#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "cuda/runtime/device_context.h"
#include "manager/internal/tensor_device.h"
#include "manager/model_state.h"

namespace ckptdb::internal {

// Implements TensorState::Device::SetAside. Captures whole tensors in the order
// of `items` while the staging memory has room. The others pass through a
// window the size of the ring.
absl::StatusOr<std::unique_ptr<TensorState::Device::Capture>> CaptureTensors(
    DeviceContext* context, absl::Span<const TensorState::Device::Item> items,
    char* memory);

}  // namespace ckptdb::internal

#endif  // CKPTDB_CUDA_TENSORS_TENSOR_CAPTURE_H_
