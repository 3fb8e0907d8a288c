// SPDX-License-Identifier: Apache-2.0
// Restores a tensor into device memory; internal to cuda/.
#ifndef CKPTDB_CUDA_TENSORS_TENSOR_UPLOAD_H_
#define CKPTDB_CUDA_TENSORS_TENSOR_UPLOAD_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "cuda/runtime/device_context.h"
#include "cuda/runtime/stream.h"
#include "cuda/tensors/packing.h"
#include "manager/internal/tensor_device.h"
#include "manager/model_state.h"

namespace ckptdb::internal {

// All work is queued on the copy stream: a wait for the tensor's stream; then
// for each chunk its bytes and pieces to the device, the unpacking, the digests
// to the host, and the slot's `done`. The host waits for a slot's `done` before
// reusing the slot, and checks the digests then.
//
// Uses a window the size of the ring on the device, and as much pinned memory.
class TensorUpload : public TensorState::Device::Upload {
 public:
  static absl::StatusOr<std::unique_ptr<TensorUpload>> Begin(
      DeviceContext* context, absl::string_view name, const TensorState& tensor,
      uint64_t bytes);
  ~TensorUpload() override;
  TensorUpload(const TensorUpload&) = delete;
  TensorUpload& operator=(const TensorUpload&) = delete;

  absl::Status Write(uint64_t first, absl::Span<const char> bytes) override;
  absl::Status Finish() override;

 private:
  // A slot of the ring. A buffer holds a chunk's bytes, then its pieces, then
  // their digests.
  struct Slot {
    CudaEvent done;
    PinnedPool::Loan host;
    DevicePool::Loan device;
    std::vector<TensorPiece> pieces;  // of the chunk in flight
    std::vector<uint64_t> expected;   // their digests
  };

  TensorUpload(DeviceContext* context, absl::string_view name,
               TensorPlace place, uint64_t bytes)
      : context_(context), name_(name), place_(place), bytes_(bytes) {}

  absl::Status AddSlot();
  absl::Status WriteChunk(uint64_t first, absl::Span<const char> bytes);
  absl::Status QueueChunk(const Slot& slot, uint64_t bytes) const;
  absl::Status FinishSlot(Slot* slot) const;

  DeviceContext* const context_;
  const std::string name_;
  const TensorPlace place_;
  const uint64_t bytes_;
  std::vector<Slot> slots_;
  uint64_t chunks_ = 0;  // written so far
};

}  // namespace ckptdb::internal

#endif  // CKPTDB_CUDA_TENSORS_TENSOR_UPLOAD_H_
