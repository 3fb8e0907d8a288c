// SPDX-License-Identifier: Apache-2.0
#include "cuda/cuda_device.h"

#include <cuda_runtime_api.h>

#include <iostream>
#include <utility>

#include "absl/strings/str_cat.h"
#include "cuda/kernels/piece.h"
#include "cuda/kernels/row_kernels.h"
#include "cuda/kernels/tensor_kernels.h"
#include "cuda/runtime/buffer.h"
#include "cuda/runtime/device_context.h"
#include "cuda/runtime/status.h"
#include "cuda/tensors/host_backend.h"
#include "cuda/tensors/tensor_capture.h"
#include "cuda/tensors/tensor_place.h"
#include "cuda/tensors/tensor_upload.h"
#include "manager/internal/tensor_device.h"
#include "schema/status.h"

namespace ckptdb {
namespace {

using internal::CudaStatus;
using internal::DeviceContext;
using internal::DeviceScope;

constexpr uint64_t kMaxChunkBytes = uint64_t{1} << 30;
constexpr int kMinRingSlots = 2;
constexpr int kMaxRingSlots = 4;

// A CUDA device that exists.
class Gpu final : public CudaDevice {
 public:
  explicit Gpu(std::unique_ptr<DeviceContext> context)
      : context_(std::move(context)) {}

  std::string name() const override {
    return absl::StrCat("cuda:", context_->device());
  }
  DeviceContext* context() override { return context_.get(); }

  absl::Status Check(const TensorState& tensor) const override {
    CKPTDB_ASSIGN_OR_RETURN(const uint64_t bytes,
                            internal::CheckTensorPlace(tensor));
    if (bytes == 0) return absl::OkStatus();
    CKPTDB_ASSIGN_OR_RETURN(const DeviceScope scope, context_->Enter());
    CKPTDB_ASSIGN_OR_RETURN(const uint64_t span,
                            internal::SpanOfTensor(tensor, bytes));
    return internal::CheckMemory("TensorState::data", tensor.data, span,
                                 context_->device());
  }

  absl::StatusOr<std::unique_ptr<Capture>> SetAside(
      absl::Span<const Item> items, char* memory) override {
    return internal::CaptureTensors(context_.get(), items, memory);
  }

  absl::StatusOr<std::unique_ptr<Upload>> BeginUpload(absl::string_view name,
                                                      const TensorState& tensor,
                                                      uint64_t bytes) override {
    return internal::TensorUpload::Begin(context_.get(), name, tensor, bytes);
  }

  absl::Status Pin(char* memory, uint64_t bytes) override {
    CKPTDB_ASSIGN_OR_RETURN(const DeviceScope scope, context_->Enter());
    return CudaStatus(cudaHostRegister(memory, bytes, cudaHostRegisterPortable),
                      absl::StrCat("cudaHostRegister of ", bytes, " bytes"));
  }
  void Unpin(char* memory) override {
    const absl::StatusOr<DeviceScope> scope = context_->Enter();
    CudaStatus(cudaHostUnregister(memory), "cudaHostUnregister").IgnoreError();
  }

 private:
  const std::unique_ptr<DeviceContext> context_;
};

absl::Status OutOfRange(absl::string_view option, uint64_t value,
                        uint64_t least, uint64_t most) {
  return absl::InvalidArgumentError(
      absl::StrCat("CudaDevice::Options::", option, " is ", value,
                   ", expected ", least, " to ", most));
}

absl::Status CheckOptions(const CudaDevice::Options& options) {
  if (options.chunk_bytes < internal::kMaxPieceBytes ||
      options.chunk_bytes > kMaxChunkBytes) {
    return OutOfRange("chunk_bytes", options.chunk_bytes,
                      internal::kMaxPieceBytes, kMaxChunkBytes);
  }
  if (options.chunk_bytes % TensorState::Device::kAlignment != 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "CudaDevice::Options::chunk_bytes is ", options.chunk_bytes,
        ", expected a multiple of ", TensorState::Device::kAlignment));
  }
  if (options.device < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("CudaDevice::Options::device is ", options.device,
                     ", expected at least 0"));
  }
  if (options.ring_slots < kMinRingSlots ||
      options.ring_slots > kMaxRingSlots) {
    return absl::InvalidArgumentError(
        absl::StrCat("CudaDevice::Options::ring_slots is ", options.ring_slots,
                     ", expected ", kMinRingSlots, " to ", kMaxRingSlots));
  }
  return absl::OkStatus();
}

// Returns whether counting the devices failed because the machine has none. If
// devices exist but do not work, a trainer may own memory on them, and host
// memory must not replace it. A driver that is installed but too old reports a
// version.
bool HasNoDevice(cudaError_t error) {
  int version = 0;
  if (error == cudaErrorInsufficientDriver) {
    return !CudaStatus(cudaDriverGetVersion(&version), "cudaDriverGetVersion")
                .ok() ||
           version == 0;
  }
  return error == cudaErrorNoDevice || error == cudaErrorStubLibrary;
}

// Logs why no GPU is used, and returns a device that works in host memory.
absl::StatusOr<std::unique_ptr<CudaDevice>> HostFallback(
    const CudaDevice::Options& options, absl::string_view why) {
  if (options.required) {
    return absl::UnavailableError(absl::StrCat(
        "no CUDA device was found (", why,
        "); install a driver, or set CudaDevice::Options::required to false to "
        "work in host memory"));
  }
  const std::string line = absl::StrCat("ckptdb: no CUDA device was found (",
                                        why, "); tensors are in host memory");
  if (options.log) {
    options.log(line);
  } else {
    std::cerr << line << "\n";
  }
  return internal::NewHostBackend();
}

// Loads the kernels when the device is opened, so that the first save does not
// wait for this, and a device that they were not compiled for is an error here.
absl::Status LoadKernels(const DeviceContext& context) {
  CKPTDB_ASSIGN_OR_RETURN(const DeviceScope scope, context.Enter());
  const std::string what =
      absl::StrCat("loading the kernels for cuda:", context.device(),
                   ", compiled for CMAKE_CUDA_ARCHITECTURES");
  CKPTDB_RETURN_IF_ERROR(CudaStatus(internal::LoadRowKernels(), what));
  return CudaStatus(internal::LoadTensorKernels(), what);
}

}  // namespace

absl::StatusOr<std::unique_ptr<CudaDevice>> CudaDevice::Open() {
  return Open(Options());
}

absl::StatusOr<std::unique_ptr<CudaDevice>> CudaDevice::Open(
    const Options& options) {
  CKPTDB_RETURN_IF_ERROR(CheckOptions(options));
  int count = 0;  // remains 0 without a driver
  const cudaError_t error = cudaGetDeviceCount(&count);
  const absl::Status counted = CudaStatus(error, "cudaGetDeviceCount");
  if (HasNoDevice(error)) return HostFallback(options, counted.message());
  CKPTDB_RETURN_IF_ERROR(counted);
  if (count == 0) return HostFallback(options, "the machine has none");
  if (options.device >= count) {
    return absl::InvalidArgumentError(
        absl::StrCat("CudaDevice::Options::device is ", options.device,
                     ", expected 0 to ", count - 1));
  }
  CKPTDB_ASSIGN_OR_RETURN(
      std::unique_ptr<DeviceContext> context,
      DeviceContext::Create(
          options.device,
          {options.staging_bytes, options.chunk_bytes, options.ring_slots}));
  CKPTDB_RETURN_IF_ERROR(LoadKernels(*context));
  return std::make_unique<Gpu>(std::move(context));
}

}  // namespace ckptdb
