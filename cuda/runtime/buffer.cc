// SPDX-License-Identifier: Apache-2.0
#include "cuda/runtime/buffer.h"

#include <limits>

#include "absl/strings/str_cat.h"
#include "cuda/runtime/status.h"
#include "schema/status.h"

namespace ckptdb::internal {
namespace {

bool IsPinnedByte(const char* byte) {
  cudaPointerAttributes attributes = {};
  return CudaStatus(cudaPointerGetAttributes(&attributes, byte),
                    "cudaPointerGetAttributes")
             .ok() &&
         attributes.type == cudaMemoryTypeHost;
}

}  // namespace

absl::StatusOr<DeviceBuffer> DeviceBuffer::Allocate(uint64_t bytes,
                                                    absl::string_view what) {
  void* memory = nullptr;
  CKPTDB_RETURN_IF_ERROR(
      CudaStatus(cudaMalloc(&memory, bytes),
                 absl::StrCat("cudaMalloc of ", bytes, " bytes for ", what)));
  return DeviceBuffer(static_cast<char*>(memory), bytes);
}

absl::StatusOr<PinnedBuffer> PinnedBuffer::Allocate(uint64_t bytes,
                                                    absl::string_view what) {
  void* memory = nullptr;
  CKPTDB_RETURN_IF_ERROR(CudaStatus(
      cudaHostAlloc(&memory, bytes, cudaHostAllocPortable),
      absl::StrCat("cudaHostAlloc of ", bytes, " bytes for ", what)));
  return PinnedBuffer(static_cast<char*>(memory), bytes);
}

bool IsPinned(const char* memory, uint64_t bytes) {
  return bytes > 0 && IsPinnedByte(memory) && IsPinnedByte(memory + bytes - 1);
}

absl::StatusOr<uint64_t> BytesOfRows(absl::string_view what, uint64_t rows,
                                     uint64_t row_bytes,
                                     uint64_t stride_bytes) {
  constexpr uint64_t kMost = std::numeric_limits<int64_t>::max();
  if (stride_bytes < row_bytes) {
    return absl::InvalidArgumentError(
        absl::StrCat(what, " has stride_bytes ", stride_bytes,
                     ", expected at least the ", row_bytes, " bytes of a row"));
  }
  if (row_bytes > kMost ||
      (rows > 1 && (kMost - row_bytes) / (rows - 1) < stride_bytes)) {
    return absl::InvalidArgumentError(
        absl::StrCat(what, " has ", rows, " rows with stride_bytes ",
                     stride_bytes, ", which extend beyond ", kMost, " bytes"));
  }
  return (rows - 1) * stride_bytes + row_bytes;
}

absl::Status CheckMemory(absl::string_view what, const void* memory,
                         uint64_t bytes, int device) {
  if (bytes == 0) return absl::OkStatus();
  for (const uint64_t at : {uint64_t{0}, bytes - 1}) {
    cudaPointerAttributes attributes = {};
    CKPTDB_RETURN_IF_ERROR(
        CudaStatus(cudaPointerGetAttributes(
                       &attributes, static_cast<const char*>(memory) + at),
                   "cudaPointerGetAttributes"));
    const bool on_device = attributes.type == cudaMemoryTypeDevice ||
                           attributes.type == cudaMemoryTypeManaged;
    if (on_device && attributes.device == device) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        what, at == 0 ? "" : absl::StrCat(" at its last byte, ", at, ","),
        " is ",
        on_device ? absl::StrCat("memory of cuda:", attributes.device)
                  : "host memory",
        ", expected memory of cuda:", device));
  }
  return absl::OkStatus();
}

absl::Status CopyToHost(char* to, const char* from, uint64_t bytes,
                        cudaStream_t stream) {
  return CudaStatus(
      cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToHost, stream),
      absl::StrCat("cudaMemcpyAsync of ", bytes, " bytes to the host"));
}

absl::Status CopyToDevice(char* to, const char* from, uint64_t bytes,
                          cudaStream_t stream) {
  return CudaStatus(
      cudaMemcpyAsync(to, from, bytes, cudaMemcpyHostToDevice, stream),
      absl::StrCat("cudaMemcpyAsync of ", bytes, " bytes to the device"));
}

}  // namespace ckptdb::internal
