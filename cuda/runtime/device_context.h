// What all saves and restores of one device share; internal to cuda/.
#ifndef CKPTDB_CUDA_RUNTIME_DEVICE_CONTEXT_H_
#define CKPTDB_CUDA_RUNTIME_DEVICE_CONTEXT_H_

#include <cstdint>
#include <memory>
#include <utility>

#include "absl/status/statusor.h"
#include "ckptdb/cuda/runtime/buffer.h"
#include "ckptdb/cuda/runtime/buffer_pool.h"
#include "ckptdb/cuda/runtime/device_scope.h"
#include "ckptdb/cuda/runtime/status.h"
#include "ckptdb/cuda/runtime/stream.h"

namespace ckptdb::internal {

using DevicePool = BufferPool<DeviceBuffer>;
using PinnedPool = BufferPool<PinnedBuffer>;

struct DeviceLimits {
  // The memory of the device in which state is set aside.
  uint64_t staging_bytes = 0;
  // A copy between device and host, and how many of them are under way.
  uint64_t chunk_bytes = 0;
  int ring_slots = 0;

  uint64_t ring_bytes() const {
    return chunk_bytes * static_cast<uint64_t>(ring_slots);
  }
};

// Made and destroyed by the owner of the device; its streams and pools may be
// used by any thread. It goes after all that was taken from its pools.
class DeviceContext {
 public:
  static absl::StatusOr<std::unique_ptr<DeviceContext>> Create(
      int device, const DeviceLimits& limits);
  ~DeviceContext();
  DeviceContext(const DeviceContext&) = delete;
  DeviceContext& operator=(const DeviceContext&) = delete;

  int device() const { return device_; }
  const DeviceLimits& limits() const { return limits_; }

  // Makes the device that of the calling thread.
  absl::StatusOr<DeviceScope> Enter() const {
    return DeviceScope::Enter(primary_.get());
  }
  // The stream on which state is set aside, behind the trainer's, and the one
  // on which it is copied to and from the host.
  cudaStream_t side() const { return side_.get(); }
  cudaStream_t copies() const { return copies_.get(); }
  // Waits for both, on any thread.
  absl::Status Synchronize() const;

  // What is set aside for saves that are under way.
  DevicePool& staging() { return staging_; }
  // What passes through: of restores, and of saves of what does not fit into
  // staging. A ring at a time, for each call that is under way.
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

// Waits for a stream before what is queued on it loses its memory, on any way
// out.
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
  // There is nothing to wait for any more.
  void Dismiss() { waits_ = false; }

 private:
  const cudaStream_t stream_;
  bool waits_ = true;
};

}  // namespace ckptdb::internal

#endif  // CKPTDB_CUDA_RUNTIME_DEVICE_CONTEXT_H_
