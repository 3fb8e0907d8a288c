#include "ckptdb/cuda/runtime/buffer.h"

#include "absl/strings/str_cat.h"
#include "ckptdb/cuda/runtime/status.h"
#include "ckptdb/schema/status.h"

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
