// Memory of a device, and host memory that it copies to, which ends with its
// owner; internal to cuda/.
//
// What is in flight to or from a buffer is waited for before it goes.
#ifndef CKPTDB_CUDA_RUNTIME_BUFFER_H_
#define CKPTDB_CUDA_RUNTIME_BUFFER_H_

#include <cuda_runtime_api.h>

#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "ckptdb/cuda/runtime/device_scope.h"

namespace ckptdb::internal {

// Memory of the current context's device. `what` names it in errors:
// ResourceExhausted has the bytes that were asked for.
class DeviceBuffer {
 public:
  DeviceBuffer() = default;
  static absl::StatusOr<DeviceBuffer> Allocate(uint64_t bytes,
                                               absl::string_view what);

  char* get() const { return memory_.get(); }
  uint64_t bytes() const { return bytes_; }

 private:
  DeviceBuffer(char* memory, uint64_t bytes)
      : bytes_(bytes), memory_(memory, {CurrentContext()}) {}

  uint64_t bytes_ = 0;
  std::unique_ptr<char, DestroyIn<cudaFree>> memory_;
};

// Host memory that stays where it is for copies of any device.
class PinnedBuffer {
 public:
  PinnedBuffer() = default;
  static absl::StatusOr<PinnedBuffer> Allocate(uint64_t bytes,
                                               absl::string_view what);

  char* get() const { return memory_.get(); }
  uint64_t bytes() const { return bytes_; }

 private:
  PinnedBuffer(char* memory, uint64_t bytes)
      : bytes_(bytes), memory_(memory, {CurrentContext()}) {}

  uint64_t bytes_ = 0;
  std::unique_ptr<char, DestroyIn<cudaFreeHost>> memory_;
};

// Returns whether the bytes of `memory` at both ends are host memory that
// copies reach directly.
bool IsPinned(const char* memory, uint64_t bytes);

// Returns the bytes from the first to the last of rows, which are at least one
// and lie `stride_bytes` apart; InvalidArgument if rows overlap or the bytes go
// beyond 2^63 - 1. `what` names the rows in errors.
absl::StatusOr<uint64_t> BytesOfRows(absl::string_view what, uint64_t rows,
                                     uint64_t row_bytes, uint64_t stride_bytes);
// Returns InvalidArgument unless `memory` is the device's at both ends, or has
// no bytes. Called on the device.
absl::Status CheckMemory(absl::string_view what, const void* memory,
                         uint64_t bytes, int device);

// Queue a copy of `bytes` on `stream`. Host memory is pinned.
absl::Status CopyToHost(char* to, const char* from, uint64_t bytes,
                        cudaStream_t stream);
absl::Status CopyToDevice(char* to, const char* from, uint64_t bytes,
                          cudaStream_t stream);

}  // namespace ckptdb::internal

#endif  // CKPTDB_CUDA_RUNTIME_BUFFER_H_
