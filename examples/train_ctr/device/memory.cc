// SPDX-License-Identifier: Apache-2.0
#include "train_ctr/device/memory.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"

namespace train_ctr {
namespace {

absl::Status Wait(cudaStream_t stream) {
  return CudaStatus(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
}

}  // namespace

absl::Status CudaStatus(cudaError_t error, absl::string_view call) {
  if (error == cudaSuccess) return absl::OkStatus();
  cudaGetLastError();  // it was told
  const std::string message = absl::StrCat(call, ": ", cudaGetErrorName(error),
                                           ": ", cudaGetErrorString(error));
  return error == cudaErrorMemoryAllocation
             ? absl::ResourceExhaustedError(message)
             : absl::InternalError(message);
}

namespace internal {

absl::StatusOr<DeviceBytes> NewDeviceBytes(size_t bytes) {
  void* memory = nullptr;
  CKPTDB_RETURN_IF_ERROR(
      CudaStatus(cudaMalloc(&memory, std::max<size_t>(bytes, 1)),
                 absl::StrCat("cudaMalloc of ", bytes, " bytes")));
  return DeviceBytes(memory);
}

absl::StatusOr<PinnedBytes> NewPinnedBytes(size_t bytes) {
  void* memory = nullptr;
  CKPTDB_RETURN_IF_ERROR(CudaStatus(
      cudaHostAlloc(&memory, std::max<size_t>(bytes, 1), cudaHostAllocDefault),
      absl::StrCat("cudaHostAlloc of ", bytes, " bytes")));
  return PinnedBytes(memory);
}

}  // namespace internal

absl::StatusOr<Transfer> Transfer::Make(cudaStream_t stream) {
  CKPTDB_ASSIGN_OR_RETURN(internal::PinnedBytes buffer,
                          internal::NewPinnedBytes(kBytes));
  return Transfer(stream, std::move(buffer));
}

absl::Status Transfer::Write(const void* from, size_t bytes, void* to) const {
  for (size_t at = 0; at < bytes; at += kBytes) {
    const size_t count = std::min(kBytes, bytes - at);
    std::memcpy(buffer_.get(), static_cast<const char*>(from) + at, count);
    CKPTDB_RETURN_IF_ERROR(
        CudaStatus(cudaMemcpyAsync(static_cast<char*>(to) + at, buffer_.get(),
                                   count, cudaMemcpyHostToDevice, stream_),
                   "cudaMemcpyAsync to the device"));
    CKPTDB_RETURN_IF_ERROR(Wait(stream_));
  }
  return absl::OkStatus();
}

absl::Status Transfer::Read(const void* from, size_t bytes, void* to) const {
  for (size_t at = 0; at < bytes; at += kBytes) {
    const size_t count = std::min(kBytes, bytes - at);
    CKPTDB_RETURN_IF_ERROR(CudaStatus(
        cudaMemcpyAsync(buffer_.get(), static_cast<const char*>(from) + at,
                        count, cudaMemcpyDeviceToHost, stream_),
        "cudaMemcpyAsync from the device"));
    CKPTDB_RETURN_IF_ERROR(Wait(stream_));
    std::memcpy(static_cast<char*>(to) + at, buffer_.get(), count);
  }
  return absl::OkStatus();
}

}  // namespace train_ctr
