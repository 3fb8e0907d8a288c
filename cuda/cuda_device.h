// SPDX-License-Identifier: Apache-2.0
// CudaDevice: saves and restores tensors in GPU memory without stopping the
// trainer.
//
//   CKPTDB_ASSIGN_OR_RETURN(const std::unique_ptr<CudaDevice> gpu,
//                           CudaDevice::Open());
//   TensorState weights = TensorState::Of(weights_on_device, {256, 64});
//   weights.device = gpu.get();
//   weights.stream = stream;  // the trainer's cudaStream_t
//   CKPTDB_RETURN_IF_ERROR(model.AddTensor("mlp.0.weight", weights));
//   CKPTDB_ASSIGN_OR_RETURN(auto manager,
//                           CheckpointManager::Open(options, &model));
//   ...
//   train(stream);  // queues the work of a step
//   CKPTDB_RETURN_IF_ERROR(manager->Step().status());
//
// CudaDevice is in a separate library, ckptdb::cuda (find_package(ckptdb
// COMPONENTS cuda)); ckptdb::ckptdb does not link CUDA. The library exists if
// nvcc was found when ckptdb was configured (CKPTDB_CUDA). It links the CUDA
// runtime statically and does not link the driver, so a program that uses it
// starts on any machine.
//
// A save
// 1. captures each tensor as it is after the work already queued on its stream.
//    The tensors are packed into staging memory on the device, on a stream of
//    the lowest priority. Work that the trainer queues later waits only for
//    this packing: not for the host, the bus or the disk. The manager's call
//    does not wait for the device.
// 2. copies the packed tensors to the manager's memory (arena_bytes) in chunks,
//    a few at a time, on the save thread. The manager pins that memory if the
//    model has tensors on a device; if the system refuses, the chunks pass
//    through a ring of pinned buffers.
// 3. compares digests of the packed bytes with digests of the bytes that
//    arrived. A mismatch is DataLoss and names the tensor.
//
// Tensors are staged in the order in which they were added. Those that do not
// fit in staging memory pass through a window of ring_slots * chunk_bytes while
// the manager's call waits: nothing more is allocated, but the trainer waits
// for the bus. All device tensors must fit in arena_bytes; otherwise the save
// fails with ResourceExhausted and both numbers.
//
// A restore writes each tensor through a ring of pinned buffers, after the work
// already queued on its stream, checks it in the same way, and returns when it
// is on the device.
//
// Streams. TensorState::stream is a stream of this device. Null is the legacy
// default stream; a trainer compiled with per-thread default streams passes
// cudaStreamPerThread, which denotes the stream of the thread that calls the
// manager. A stream must outlive the managers of its tensors.
//
// Graphs. Saving or restoring a tensor fails with FailedPrecondition while its
// stream is being captured into a CUDA graph. Other streams may be captured at
// the same time, even in global mode, except that no blocking stream may be
// captured while a tensor uses the legacy default stream. TensorState::event
// must not be recorded in a capture: a save that waits for it would become part
// of the graph, and this cannot be detected.
//
// Threads. Any thread may call a CudaDevice. Calls restore the thread's current
// device. A thread that has not used a device still has none afterwards: the
// process gets no context on any device but this one.
//
// Device memory: at most staging_bytes, allocated by the first save that needs
// it, and a ring during a restore or for tensors that do not fit. Host memory:
// at most two rings for each save or restore in progress.
#ifndef CKPTDB_CUDA_CUDA_DEVICE_H_
#define CKPTDB_CUDA_CUDA_DEVICE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "manager/internal/tensor_device.h"
#include "manager/model_state.h"

namespace ckptdb {

namespace internal {
class DeviceContext;
}  // namespace internal

// Thread-safe. Must outlive the managers of its tensors.
class CudaDevice : public TensorState::Device {
 public:
  struct Options {
    // The device's ordinal in the CUDA runtime.
    int device = 0;
    // Device memory for captured state. Choose at least the size of a save's
    // tensors, because the trainer waits for those that do not fit. Default:
    // 256 MiB.
    uint64_t staging_bytes = uint64_t{256} << 20;
    // Bytes of one copy: 1 MiB to 1 GiB, a multiple of 64. Smaller chunks cost
    // more calls; larger ones cost more memory. Default: 16 MiB.
    uint64_t chunk_bytes = uint64_t{16} << 20;
    // Copies in flight at once, 2 to 4. Default: 3.
    int ring_slots = 3;
    // If true, a missing device is an error. If false, host memory replaces
    // device memory.
    bool required = false;
    // Receives one line if no device exists. Default: standard error.
    std::function<void(absl::string_view line)> log = {};
  };

  // Opens a device. If the machine has no driver or no device, returns a
  // CudaDevice that works in host memory, so that the rest of the trainer need
  // not change, or Unavailable if Options::required is set. Returns
  // InvalidArgument for an option out of range or a nonexistent ordinal;
  // Unavailable for a driver that is too old; FailedPrecondition for a device
  // that the kernels were not compiled for (compute capability below 8.0,
  // unless ckptdb was configured with other CMAKE_CUDA_ARCHITECTURES). If
  // devices exist but do not work, returns the runtime's error.
  static absl::StatusOr<std::unique_ptr<CudaDevice>> Open(
      const Options& options);
  static absl::StatusOr<std::unique_ptr<CudaDevice>> Open();

  // Returns "cuda:0" for device 0, or "host" for host memory.
  virtual std::string name() const = 0;
  // Internal. Returns null for host memory.
  virtual internal::DeviceContext* context() = 0;
};

}  // namespace ckptdb

#endif  // CKPTDB_CUDA_CUDA_DEVICE_H_
