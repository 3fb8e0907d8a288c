// SPDX-License-Identifier: Apache-2.0
// Memory of a GPU and the pinned host memory that its copies need.
#ifndef CKPTDB_EXAMPLES_TRAIN_CTR_DEVICE_MEMORY_H_
#define CKPTDB_EXAMPLES_TRAIN_CTR_DEVICE_MEMORY_H_

#include <ckptdb/schema/status.h>
#include <cuda_runtime_api.h>

#include <cstddef>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace train_ctr {

// Returns the error of a call of the runtime, with its name, as
// ResourceExhausted or Internal.
absl::Status CudaStatus(cudaError_t error, absl::string_view call);

namespace internal {

struct FreeDevice {
  void operator()(void* memory) const { cudaFree(memory); }
};
struct FreePinned {
  void operator()(void* memory) const { cudaFreeHost(memory); }
};
using DeviceBytes = std::unique_ptr<void, FreeDevice>;
using PinnedBytes = std::unique_ptr<void, FreePinned>;

absl::StatusOr<DeviceBytes> NewDeviceBytes(size_t bytes);
absl::StatusOr<PinnedBytes> NewPinnedBytes(size_t bytes);

}  // namespace internal

// An array in the memory of the current device. Work queued on it must
// have ended before it is destroyed.
template <typename T>
class DeviceArray {
 public:
  DeviceArray() = default;
  static absl::StatusOr<DeviceArray> Make(size_t count) {
    DeviceArray array;
    CKPTDB_ASSIGN_OR_RETURN(array.memory_,
                            internal::NewDeviceBytes(count * sizeof(T)));
    array.size_ = count;
    return array;
  }

  T* get() const { return static_cast<T*>(memory_.get()); }
  size_t size() const { return size_; }
  size_t bytes() const { return size_ * sizeof(T); }

 private:
  internal::DeviceBytes memory_;
  size_t size_ = 0;
};

// An array in device memory, and one in host memory that is copied to it or
// from it. The host must not touch its array while a copy is queued.
template <typename T>
class StagedArray {
 public:
  StagedArray() = default;
  static absl::StatusOr<StagedArray> Make(size_t count) {
    StagedArray array;
    CKPTDB_ASSIGN_OR_RETURN(array.device_, DeviceArray<T>::Make(count));
    CKPTDB_ASSIGN_OR_RETURN(array.host_,
                            internal::NewPinnedBytes(count * sizeof(T)));
    return array;
  }

  T* host() const { return static_cast<T*>(host_.get()); }
  T* device() const { return device_.get(); }

  // Queue a copy of the first `count` elements.
  absl::Status Upload(size_t count, cudaStream_t stream) const {
    return CudaStatus(cudaMemcpyAsync(device(), host(), count * sizeof(T),
                                      cudaMemcpyHostToDevice, stream),
                      "cudaMemcpyAsync to the device");
  }
  absl::Status Download(size_t count, cudaStream_t stream) const {
    return CudaStatus(cudaMemcpyAsync(host(), device(), count * sizeof(T),
                                      cudaMemcpyDeviceToHost, stream),
                      "cudaMemcpyAsync from the device");
  }

 private:
  DeviceArray<T> device_;
  internal::PinnedBytes host_;
};

// Copies between device memory and any host memory, for rare
// transfers. Not thread-safe.
class Transfer {
 public:
  // `stream` outlives it.
  static absl::StatusOr<Transfer> Make(cudaStream_t stream);

  // Return when the copy, and everything that was queued before, is done.
  absl::Status Write(const void* from, size_t bytes, void* to) const;
  absl::Status Read(const void* from, size_t bytes, void* to) const;

 private:
  static constexpr size_t kBytes = size_t{4} << 20;

  Transfer(cudaStream_t stream, internal::PinnedBytes buffer)
      : stream_(stream), buffer_(std::move(buffer)) {}

  cudaStream_t stream_;
  internal::PinnedBytes buffer_;
};

}  // namespace train_ctr

#endif  // CKPTDB_EXAMPLES_TRAIN_CTR_DEVICE_MEMORY_H_
