// SPDX-License-Identifier: Apache-2.0
#include "train_ctr/device/cuda_machine.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"

namespace train_ctr {
namespace {

constexpr size_t kBufferBytes = size_t{4} << 20;

// Returns Unavailable or InvalidArgument if the computer does not have it.
absl::Status CheckDevice(int device) {
  int count = 0;  // not set without a driver
  const absl::Status counted =
      CudaStatus(cudaGetDeviceCount(&count), "cudaGetDeviceCount");
  if (!counted.ok() || count == 0) {
    return absl::UnavailableError(absl::StrCat(
        "this machine has no CUDA device (",
        counted.ok() ? "the driver finds none" : counted.message(),
        "); install a GPU and its driver, or train without --device"));
  }
  if (device >= 0 && device < count) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("this machine has ", count,
                   " CUDA devices, numbered from 0 to ", count - 1));
}

}  // namespace

absl::Status CudaStatus(cudaError_t error, absl::string_view call) {
  if (error == cudaSuccess) return absl::OkStatus();
  cudaGetLastError();  // clears it
  const std::string message = absl::StrCat(call, ": ", cudaGetErrorName(error),
                                           ": ", cudaGetErrorString(error));
  return error == cudaErrorMemoryAllocation
             ? absl::ResourceExhaustedError(message)
             : absl::InternalError(message);
}

absl::StatusOr<std::unique_ptr<CudaMachine>> CudaMachine::Open(int device) {
  std::unique_ptr<CudaMachine> made(new CudaMachine);
  CKPTDB_RETURN_IF_ERROR(CheckDevice(device));
  CKPTDB_RETURN_IF_ERROR(CudaStatus(cudaSetDevice(device), "cudaSetDevice"));
  ckptdb::CudaDevice::Options open;
  open.device = device;
  open.required = true;
  CKPTDB_ASSIGN_OR_RETURN(made->device_, ckptdb::CudaDevice::Open(open));
  CKPTDB_RETURN_IF_ERROR(CudaStatus(
      cudaStreamCreateWithFlags(&made->stream_, cudaStreamNonBlocking),
      "cudaStreamCreateWithFlags"));
  CKPTDB_ASSIGN_OR_RETURN(made->buffer_, made->NewPinnedBytes(kBufferBytes));
  return made;
}

CudaMachine::~CudaMachine() {
  if (stream_ != nullptr) Wait().IgnoreError();
  for (void* const memory : memory_) cudaFree(memory);
  for (void* const memory : pinned_) cudaFreeHost(memory);
  if (stream_ != nullptr) cudaStreamDestroy(stream_);
}

absl::Status CudaMachine::Run(const LayerOperation& operation) {
  return std::visit(
      [this](const auto& layer) { return Queue(layer, "a layer's kernel"); },
      operation);
}

void CudaMachine::Place(ckptdb::TensorState* tensor) const {
  tensor->device = device_.get();
  tensor->stream = stream_;
}

absl::StatusOr<void*> CudaMachine::NewBytes(size_t bytes) {
  void* memory = nullptr;
  CKPTDB_RETURN_IF_ERROR(
      CudaStatus(cudaMalloc(&memory, std::max<size_t>(bytes, 1)),
                 absl::StrCat("cudaMalloc of ", bytes, " bytes")));
  memory_.push_back(memory);
  return memory;
}

absl::StatusOr<void*> CudaMachine::NewPinnedBytes(size_t bytes) {
  void* memory = nullptr;
  CKPTDB_RETURN_IF_ERROR(CudaStatus(
      cudaHostAlloc(&memory, std::max<size_t>(bytes, 1), cudaHostAllocDefault),
      absl::StrCat("cudaHostAlloc of ", bytes, " bytes")));
  pinned_.push_back(memory);
  return memory;
}

absl::Status CudaMachine::QueueCopy(const void* from, size_t bytes, void* to,
                                    cudaMemcpyKind kind) {
  return CudaStatus(cudaMemcpyAsync(to, from, bytes, kind, stream_),
                    kind == cudaMemcpyHostToDevice
                        ? "cudaMemcpyAsync to the device"
                        : "cudaMemcpyAsync from the device");
}

absl::Status CudaMachine::Wait() {
  return CudaStatus(cudaStreamSynchronize(stream_), "cudaStreamSynchronize");
}

absl::Status CudaMachine::Copy(const void* from, size_t bytes, void* to,
                               cudaMemcpyKind kind) {
  for (size_t at = 0; at < bytes; at += kBufferBytes) {
    const size_t count = std::min(kBufferBytes, bytes - at);
    const char* const source = static_cast<const char*>(from) + at;
    char* const target = static_cast<char*>(to) + at;
    if (kind == cudaMemcpyHostToDevice) {
      std::memcpy(buffer_, source, count);
      CKPTDB_RETURN_IF_ERROR(QueueCopy(buffer_, count, target, kind));
      CKPTDB_RETURN_IF_ERROR(Wait());
    } else {
      CKPTDB_RETURN_IF_ERROR(QueueCopy(source, count, buffer_, kind));
      CKPTDB_RETURN_IF_ERROR(Wait());
      std::memcpy(target, buffer_, count);
    }
  }
  return absl::OkStatus();
}

}  // namespace train_ctr
