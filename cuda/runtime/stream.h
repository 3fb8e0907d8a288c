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
#include "ckptdb/cuda/runtime/device_scope.h"

namespace ckptdb::internal {

// A stream of the current context. It waits for no other stream, the default
// one included. It has the lowest priority: of the blocks of kernels that wait
// for room on the device, those of a trainer's streams go first where theirs is
// higher. A stream has the lowest by default.
class CudaStream {
 public:
  static absl::StatusOr<CudaStream> Create();

  cudaStream_t get() const { return stream_.get(); }
  // Waits for all that was queued.
  absl::Status Synchronize() const;

 private:
  explicit CudaStream(cudaStream_t stream)
      : stream_(stream, {CurrentContext()}) {}

  std::unique_ptr<std::remove_pointer_t<cudaStream_t>,
                  DestroyIn<cudaStreamDestroy>>
      stream_;
};

// An event of the current context, without a time. A thread that waits for it
// takes no processor.
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
  explicit CudaEvent(cudaEvent_t event) : event_(event, {CurrentContext()}) {}

  std::unique_ptr<std::remove_pointer_t<cudaEvent_t>,
                  DestroyIn<cudaEventDestroy>>
      event_;
};

// Work that is queued on `waiting` from now on begins when `event`, which is
// the trainer's own, has come, or what is queued on the trainer's `stream` now
// is done: `event` is recorded there. They are of the current device.
// AwaitStream returns FailedPrecondition if the stream is being captured into a
// graph, which then would have the save in it; of an event that cannot be
// asked.
absl::Status AwaitEvent(cudaStream_t waiting, cudaEvent_t event);
absl::Status AwaitStream(cudaStream_t waiting, cudaStream_t stream,
                         const CudaEvent& event);
absl::Status AwaitStream(cudaStream_t waiting, cudaStream_t stream);

}  // namespace ckptdb::internal

#endif  // CKPTDB_CUDA_RUNTIME_STREAM_H_
