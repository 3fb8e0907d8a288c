// SPDX-License-Identifier: Apache-2.0
// Device memory, and host memory that it copies to, freed with its owner;
// internal to cuda/.
//
// Wait for all copies to or from a buffer before destroying it.
#ifndef CKPTDB_CUDA_RUNTIME_BUFFER_H_
#define CKPTDB_CUDA_RUNTIME_BUFFER_H_

#include <cuda_runtime_api.h>

#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "cuda/runtime/device_scope.h"

namespace ckptdb::internal {

// Memory on the current context's device. `what` names it in errors;
// ResourceExhausted includes the requested bytes.
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

// Pinned host memory for copies to and from any device.
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

// Returns whether the first and the last byte of `memory` are pinned, so that
// copies can reach it directly.
bool IsPinned(const char* memory, uint64_t bytes);

// Returns the number of bytes from the start of the first row to the end of the
// last. There is at least one row, and rows are `stride_bytes` apart. Returns
// InvalidArgument if rows overlap or extend beyond 2^63 - 1 bytes. `what` names
// the rows in errors.
absl::StatusOr<uint64_t> BytesOfRows(absl::string_view what, uint64_t rows,
                                     uint64_t row_bytes, uint64_t stride_bytes);
// Returns InvalidArgument unless the first and the last byte of `memory` are on
// `device`, or it is empty. Call it with `device` current.
absl::Status CheckMemory(absl::string_view what, const void* memory,
                         uint64_t bytes, int device);

// Queue a copy of `bytes` on `stream`. Host memory must be pinned.
absl::Status CopyToHost(char* to, const char* from, uint64_t bytes,
                        cudaStream_t stream);
absl::Status CopyToDevice(char* to, const char* from, uint64_t bytes,
                          cudaStream_t stream);

}  // namespace ckptdb::internal

#endif  // CKPTDB_CUDA_RUNTIME_BUFFER_H_
