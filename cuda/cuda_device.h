// Tensors in the memory of a GPU: saved and restored without stopping the
// trainer.
//
//   CKPTDB_ASSIGN_OR_RETURN(const std::unique_ptr<CudaDevice> gpu,
//                           CudaDevice::Open());
//   TensorState weights = TensorState::Of(weights_on_device, {256, 64});
//   weights.device = gpu.get();
//   weights.stream = stream;  // cudaStream_t, on which the trainer works
//   CKPTDB_RETURN_IF_ERROR(model.AddTensor("mlp.0.weight", weights));
//   CKPTDB_ASSIGN_OR_RETURN(auto manager,
//                           CheckpointManager::Open(options, &model));
//   ...
//   train(stream);  // queues the work of a step
//   CKPTDB_RETURN_IF_ERROR(manager->Step().status());
//
// It is in a library of its own, ckptdb::cuda, of find_package(ckptdb
// COMPONENTS cuda): ckptdb::ckptdb links no CUDA. It is there when ckptdb was
// configured where nvcc was found (CKPTDB_CUDA). It links the runtime
// statically and no driver, so that a program with it starts on any machine.
//
// A save
// 1. takes each tensor as the work that is queued on its stream leaves it. On a
//    stream of the lowest priority the tensors are packed into staging memory
//    of the device; work that the trainer queues later waits for that, and for
//    nothing else: neither for the host, nor for the bus, nor for the disk. The
//    call of the manager does not wait for the device.
// 2. copies the packed tensors to the manager's memory (arena_bytes) in chunks,
//    a few at a time, on the thread of saves. The manager pins that memory when
//    it has tensors of a device; where the system refuses that, the chunks take
//    a way over a ring of pinned buffers.
// 3. compares digests of what was packed with those of what has arrived. Bytes
//    that have changed on the way are DataLoss naming the tensor.
//
// Tensors that do not fit into the staging memory, one after the other as they
// were added, pass through a window of ring_slots * chunk_bytes while the call
// of the manager waits: they are saved as well, and nothing more is allocated,
// but the trainer waits for the bus. All tensors of devices have to fit into
// arena_bytes: else the save is ResourceExhausted with both numbers.
//
// A restore writes each tensor behind the work that is queued on its stream, by
// way of such a ring, checks it in the same way, and returns when it is there.
//
// Streams. TensorState::stream is a stream of the device. Null is the legacy
// default stream; a trainer compiled with per-thread default streams gives
// cudaStreamPerThread, of the thread that calls the manager. A stream stays as
// long as the managers of its tensors.
//
// Graphs. While the stream of a tensor is captured into a CUDA graph, a save or
// restore of it is FailedPrecondition. Other streams may be captured meanwhile,
// also in the global mode; but no blocking stream while the stream of a tensor
// is the legacy default stream. TensorState::event is one that is not recorded
// in a capture: a save that waits for it would become part of the graph, and
// nothing tells it before.
//
// Threads. Calls may come from any thread, whatever device is its own, which is
// put back. A thread that has used no device has none afterwards: the process
// gets no context on another device than this one.
//
// Memory of the device: staging_bytes at most, from the first save that needs
// it; and during a restore, or for what passes through, a ring. Host memory:
// two rings at most for each save or restore under way.
#ifndef CKPTDB_CUDA_CUDA_DEVICE_H_
#define CKPTDB_CUDA_CUDA_DEVICE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "ckptdb/manager/model_state.h"

namespace ckptdb {

namespace internal {
class DeviceContext;
}  // namespace internal

// Thread-safe. It outlives the managers of its tensors.
class CudaDevice : public TensorState::Device {
 public:
  struct Options {
    // The number of the device, as the runtime counts them.
    int device = 0;
    // The memory of the device for what is set aside. Give it as much as the
    // tensors of a save have: what does not fit makes the trainer wait.
    // Default: 256 MiB.
    uint64_t staging_bytes = uint64_t{256} << 20;
    // The bytes of a copy, 1 MiB to 1 GiB, a multiple of 64. Small ones cost
    // the time of a call each; large ones cost memory. Default: 16 MiB.
    uint64_t chunk_bytes = uint64_t{16} << 20;
    // The copies that are under way at once, 2 to 4. Default: 3.
    int ring_slots = 3;
    // Makes it an error that there is no device. If false, host memory takes
    // its place.
    bool required = false;
    // Is told, in one line, that there is no device. Default: standard error.
    std::function<void(absl::string_view line)> log = {};
  };

  // Opens a device. If the machine has no driver or no device, it returns one
  // whose memory is host memory, so that the rest of a trainer is the same; or
  // Unavailable with Options::required. Returns InvalidArgument for an option
  // out of its range, and for a number that no device has; Unavailable for a
  // driver that is too old; FailedPrecondition for a device that the kernels
  // were not compiled for: its compute capability is at least 8.0, unless
  // ckptdb was configured with others (CMAKE_CUDA_ARCHITECTURES). Devices that
  // are there and do not work are an error, what the runtime says of them.
  static absl::StatusOr<std::unique_ptr<CudaDevice>> Open(
      const Options& options);
  static absl::StatusOr<std::unique_ptr<CudaDevice>> Open();

  // Returns "cuda:0", or "host" if host memory takes the device's place.
  virtual std::string name() const = 0;
  // For the library alone: null if host memory takes the device's place.
  virtual internal::DeviceContext* context() = 0;
};

}  // namespace ckptdb

#endif  // CKPTDB_CUDA_CUDA_DEVICE_H_
