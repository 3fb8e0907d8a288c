// Streams and events of CUDA that end with their owner; internal to cuda/.
//
//   CKPTDB_ASSIGN_OR_RETURN(CudaStream side, CudaStream::Create());
//   CKPTDB_ASSIGN_OR_RETURN(CudaEvent ready, CudaEvent::Create());
//   CKPTDB_RETURN_IF_ERROR(ready.Record(trainer));
//   CKPTDB_RETURN_IF_ERROR(ready.Await(side.get()));
//
// A destructor tells nobody of errors: without a driver, or in a process that
// ends, each call of the runtime is one.
#ifndef CKPTDB_CUDA_RUNTIME_STREAM_H_
#define CKPTDB_CUDA_RUNTIME_STREAM_H_

#include <cuda_runtime_api.h>

#include <memory>
#include <type_traits>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace ckptdb::internal {

// Makes a device the calling thread's own as long as it lives. Threads begin
// with device 0, and the trainer's may be on another one.
class DeviceScope {
 public:
  static absl::StatusOr<DeviceScope> Enter(int device);
  DeviceScope(DeviceScope&& other) noexcept
      : before_(other.before_), entered_(other.entered_) {
    other.entered_ = false;
  }
  DeviceScope& operator=(DeviceScope&&) = delete;
  ~DeviceScope();

 private:
  DeviceScope(int before, bool entered) : before_(before), entered_(entered) {}

  int before_ = 0;
  bool entered_ = false;
};

// A stream of the current device. It waits for no other stream, the default one
// included, and has the lowest priority, so that a trainer's work goes first.
class CudaStream {
 public:
  static absl::StatusOr<CudaStream> Create();

  cudaStream_t get() const { return stream_.get(); }
  // Waits for all that was queued.
  absl::Status Synchronize() const;

 private:
  struct Destroy {
    void operator()(cudaStream_t stream) const { cudaStreamDestroy(stream); }
  };
  explicit CudaStream(cudaStream_t stream) : stream_(stream) {}

  std::unique_ptr<std::remove_pointer_t<cudaStream_t>, Destroy> stream_;
};

// An event without a time. A thread that waits for it takes no processor.
class CudaEvent {
 public:
  static absl::StatusOr<CudaEvent> Create();

  cudaEvent_t get() const { return event_.get(); }
  // Marks the place behind what is queued on `stream`, instead of the one
  // before.
  absl::Status Record(cudaStream_t stream) const;
  // Work that is queued on `stream` from now on begins when what was recorded
  // is done. Does nothing if nothing was recorded.
  absl::Status Await(cudaStream_t stream) const;
  // Waits until what was recorded is done, on the calling thread.
  absl::Status Synchronize() const;

 private:
  struct Destroy {
    void operator()(cudaEvent_t event) const { cudaEventDestroy(event); }
  };
  explicit CudaEvent(cudaEvent_t event) : event_(event) {}

  std::unique_ptr<std::remove_pointer_t<cudaEvent_t>, Destroy> event_;
};

// Work that is queued on `waiting` from now on begins when `event`, which is
// the trainer's own, has come, or what is queued on `stream` now is done. They
// are of the current device.
absl::Status AwaitEvent(cudaStream_t waiting, cudaEvent_t event);
absl::Status AwaitStream(cudaStream_t waiting, cudaStream_t stream);

}  // namespace ckptdb::internal

#endif  // CKPTDB_CUDA_RUNTIME_STREAM_H_
