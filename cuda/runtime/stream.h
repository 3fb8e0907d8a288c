// SPDX-License-Identifier: Apache-2.0
// CUDA streams and events, destroyed with their owner; internal to cuda/.
//
//   CKPTDB_ASSIGN_OR_RETURN(CudaStream side, CudaStream::Create());
//   CKPTDB_ASSIGN_OR_RETURN(CudaEvent ready, CudaEvent::Create());
//   CKPTDB_RETURN_IF_ERROR(ready.Record(trainer));
//   CKPTDB_RETURN_IF_ERROR(ready.Await(side.get()));
//
// Destructors ignore errors: without a driver, or while the process exits,
// every runtime call fails.
#ifndef CKPTDB_CUDA_RUNTIME_STREAM_H_
#define CKPTDB_CUDA_RUNTIME_STREAM_H_

#include <cuda_runtime_api.h>

#include <memory>
#include <type_traits>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "cuda/runtime/device_scope.h"

namespace ckptdb::internal {

// A stream in the current context. It does not synchronize with other streams,
// including the default stream. It has the lowest priority, so blocks from the
// trainer's streams are scheduled first if those have a higher priority.
// Streams have the lowest priority by default.
class CudaStream {
 public:
  static absl::StatusOr<CudaStream> Create();

  cudaStream_t get() const { return stream_.get(); }
  // Waits for all queued work.
  absl::Status Synchronize() const;

 private:
  explicit CudaStream(cudaStream_t stream)
      : stream_(stream, {CurrentContext()}) {}

  std::unique_ptr<std::remove_pointer_t<cudaStream_t>,
                  DestroyIn<cudaStreamDestroy>>
      stream_;
};

// An event in the current context, without timing. A thread that waits for it
// blocks instead of spinning.
class CudaEvent {
 public:
  static absl::StatusOr<CudaEvent> Create();

  cudaEvent_t get() const { return event_.get(); }
  // Records the work queued on `stream` so far. Replaces an earlier record.
  absl::Status Record(cudaStream_t stream) const;
  // Makes work queued on `stream` from now on wait for the recorded work. Does
  // nothing if nothing was recorded.
  absl::Status Await(cudaStream_t stream) const;
  // Blocks the calling thread until the recorded work is done.
  absl::Status Synchronize() const;

 private:
  explicit CudaEvent(cudaEvent_t event) : event_(event, {CurrentContext()}) {}

  std::unique_ptr<std::remove_pointer_t<cudaEvent_t>,
                  DestroyIn<cudaEventDestroy>>
      event_;
};

// Make work that is queued on `waiting` from now on wait for the trainer's
// `event`, or for the work queued on the trainer's `stream` so far, by
// recording `event` there. All belong to the current device. AwaitStream
// returns FailedPrecondition if the stream is being captured into a graph,
// which would then contain the save. AwaitEvent cannot detect this.
absl::Status AwaitEvent(cudaStream_t waiting, cudaEvent_t event);
absl::Status AwaitStream(cudaStream_t waiting, cudaStream_t stream,
                         const CudaEvent& event);
absl::Status AwaitStream(cudaStream_t waiting, cudaStream_t stream);

}  // namespace ckptdb::internal

#endif  // CKPTDB_CUDA_RUNTIME_STREAM_H_
