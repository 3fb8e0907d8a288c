// SPDX-License-Identifier: Apache-2.0
// The memory of a GPU, with pinned host memory for copies. All work is queued
// on one stream.
#ifndef CKPTDB_EXAMPLES_TRAIN_CTR_DEVICE_CUDA_MACHINE_H_
#define CKPTDB_EXAMPLES_TRAIN_CTR_DEVICE_CUDA_MACHINE_H_

#include <ckptdb/cuda/cuda_device.h>
#include <ckptdb/schema/status.h>
#include <cuda_runtime_api.h>

#include <cstddef>
#include <memory>
#include <type_traits>
#include <vector>

#include "absl/strings/string_view.h"
#include "train_ctr/device/kernels.h"
#include "train_ctr/machine.h"

namespace train_ctr {

// Returns the error of a call of the runtime, with its name, as
// ResourceExhausted or Internal.
absl::Status CudaStatus(cudaError_t error, absl::string_view call);

class CudaMachine final : public Machine {
 public:
  // Returns Unavailable or InvalidArgument if the computer does not have the
  // GPU of this number. It is the current one of the calling thread from then
  // on, which makes all calls.
  static absl::StatusOr<std::unique_ptr<CudaMachine>> Open(int device);
  // Waits for all work.
  ~CudaMachine() override;

  absl::StatusOr<float*> Allocate(size_t count) override {
    return New<float>(count);
  }
  absl::Status Run(const LayerOperation& operation) override;
  absl::Status Write(const float* from, size_t count, float* to) override {
    return Copy(from, count * sizeof(float), to, cudaMemcpyHostToDevice);
  }
  absl::Status Read(const float* from, size_t count, float* to) override {
    return Copy(from, count * sizeof(float), to, cudaMemcpyDeviceToHost);
  }
  void Place(ckptdb::TensorState* tensor) const override;

  // Returns an array on the device, and one in pinned host memory; both live as
  // long as the machine.
  template <typename T>
  absl::StatusOr<T*> New(size_t count) {
    CKPTDB_ASSIGN_OR_RETURN(void* const memory, NewBytes(count * sizeof(T)));
    return static_cast<T*>(memory);
  }
  template <typename T>
  absl::StatusOr<T*> NewPinned(size_t count) {
    CKPTDB_ASSIGN_OR_RETURN(void* const memory,
                            NewPinnedBytes(count * sizeof(T)));
    return static_cast<T*>(memory);
  }
  // Copies bytes through pinned memory, and waits for it.
  absl::Status Copy(const void* from, size_t bytes, void* to,
                    cudaMemcpyKind kind);
  // Queues a kernel, and a copy of pinned memory.
  template <typename Operation>
  absl::Status Queue(const Operation& operation, absl::string_view name) {
    return CudaStatus(Launch(operation, stream_), name);
  }
  absl::Status QueueCopy(const void* from, size_t bytes, void* to,
                         cudaMemcpyKind kind);
  absl::Status Wait();

  ckptdb::CudaDevice* device() const { return device_.get(); }
  cudaStream_t stream() const { return stream_; }

 private:
  CudaMachine() = default;
  absl::StatusOr<void*> NewBytes(size_t bytes);
  absl::StatusOr<void*> NewPinnedBytes(size_t bytes);

  std::unique_ptr<ckptdb::CudaDevice> device_;
  cudaStream_t stream_ = nullptr;
  std::vector<void*> memory_;
  std::vector<void*> pinned_;
  void* buffer_ = nullptr;  // of Copy
};

}  // namespace train_ctr

#endif  // CKPTDB_EXAMPLES_TRAIN_CTR_DEVICE_CUDA_MACHINE_H_
