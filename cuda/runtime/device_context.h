// SPDX-License-Identifier: Apache-2.0
// State shared by all saves and restores of one device; internal to cuda/.
#ifndef CKPTDB_CUDA_RUNTIME_DEVICE_CONTEXT_H_
#define CKPTDB_CUDA_RUNTIME_DEVICE_CONTEXT_H_

#include <cstdint>
#include <memory>
#include <utility>

#include "absl/status/statusor.h"
#include "cuda/runtime/buffer.h"
#include "cuda/runtime/buffer_pool.h"
#include "cuda/runtime/device_scope.h"
#include "cuda/runtime/status.h"
#include "cuda/runtime/stream.h"

namespace ckptdb::internal {

using DevicePool = BufferPool<DeviceBuffer>;
using PinnedPool = BufferPool<PinnedBuffer>;

struct DeviceLimits {
  // The device memory for captured state.
  uint64_t staging_bytes = 0;
  // The size of a copy between device and host, and how many are in flight.
  uint64_t chunk_bytes = 0;
  int ring_slots = 0;

  uint64_t ring_bytes() const {
    return chunk_bytes * static_cast<uint64_t>(ring_slots);
  }
};

// Created and destroyed by the device's owner; any thread may use its streams
// and pools. Must outlive all loans from its pools.
class DeviceContext {
 public:
  static absl::StatusOr<std::unique_ptr<DeviceContext>> Create(
      int device, const DeviceLimits& limits);
  ~DeviceContext();
  DeviceContext(const DeviceContext&) = delete;
  DeviceContext& operator=(const DeviceContext&) = delete;

  int device() const { return device_; }
  const DeviceLimits& limits() const { return limits_; }

  // Makes the device current on the calling thread.
  absl::StatusOr<DeviceScope> Enter() const {
    return DeviceScope::Enter(primary_.get());
  }
  // The stream on which state is captured, after the trainer's work, and the
  // stream of copies to and from the host.
  cudaStream_t side() const { return side_.get(); }
  cudaStream_t copies() const { return copies_.get(); }
  // Waits for both streams. Any thread may call it.
  absl::Status Synchronize() const;

  // State captured for saves in progress.
  DevicePool& staging() { return staging_; }
  // State that passes through: in restores, and in saves when it does not fit
  // in staging. One ring for each call in progress.
  DevicePool& windows() { return windows_; }
  PinnedPool& pinned() { return pinned_; }

 private:
  DeviceContext(int device, const DeviceLimits& limits, PrimaryContext primary,
                CudaStream side, CudaStream copies);

  const int device_;
  const DeviceLimits limits_;
  const PrimaryContext primary_;
  const CudaStream side_;
  const CudaStream copies_;
  DevicePool staging_;
  DevicePool windows_;
  PinnedPool pinned_;
};

// On destruction, waits for a stream, so that the memory of its queued work can
// be freed on every path out of a function.
class WaitForStream {
 public:
  explicit WaitForStream(cudaStream_t stream) : stream_(stream) {}
  WaitForStream(const WaitForStream&) = delete;
  WaitForStream& operator=(const WaitForStream&) = delete;
  ~WaitForStream() {
    if (!waits_) return;
    CudaStatus(cudaStreamSynchronize(stream_), "cudaStreamSynchronize")
        .IgnoreError();
  }
  // Cancels the wait: nothing is queued any more.
  void Dismiss() { waits_ = false; }

 private:
  const cudaStream_t stream_;
  bool waits_ = true;
};

}  // namespace ckptdb::internal

#endif  // CKPTDB_CUDA_RUNTIME_DEVICE_CONTEXT_H_
