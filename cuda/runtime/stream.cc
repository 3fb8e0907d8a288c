// SPDX-License-Identifier: Apache-2.0
#include "cuda/runtime/stream.h"

#include "cuda/runtime/status.h"
#include "schema/status.h"

namespace ckptdb::internal {
namespace {

absl::Status CheckNotCaptured(cudaStream_t stream) {
  cudaStreamCaptureStatus capture = cudaStreamCaptureStatusNone;
  CKPTDB_RETURN_IF_ERROR(CudaStatus(cudaStreamIsCapturing(stream, &capture),
                                    "cudaStreamIsCapturing"));
  if (capture == cudaStreamCaptureStatusNone) return absl::OkStatus();
  return absl::FailedPreconditionError(
      "the stream of a tensor or table is being captured into a CUDA graph; "
      "save and restore before the capture begins or after it has ended");
}

}  // namespace

absl::StatusOr<CudaStream> CudaStream::Create() {
  int least = 0;
  int greatest = 0;
  CKPTDB_RETURN_IF_ERROR(
      CudaStatus(cudaDeviceGetStreamPriorityRange(&least, &greatest),
                 "cudaDeviceGetStreamPriorityRange"));
  cudaStream_t stream = nullptr;
  CKPTDB_RETURN_IF_ERROR(CudaStatus(
      cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, least),
      "cudaStreamCreateWithPriority"));
  return CudaStream(stream);
}

absl::Status CudaStream::Synchronize() const {
  return CudaStatus(cudaStreamSynchronize(get()), "cudaStreamSynchronize");
}

absl::StatusOr<CudaEvent> CudaEvent::Create() {
  cudaEvent_t event = nullptr;
  CKPTDB_RETURN_IF_ERROR(
      CudaStatus(cudaEventCreateWithFlags(
                     &event, cudaEventDisableTiming | cudaEventBlockingSync),
                 "cudaEventCreateWithFlags"));
  return CudaEvent(event);
}

absl::Status CudaEvent::Record(cudaStream_t stream) const {
  return CudaStatus(cudaEventRecord(get(), stream), "cudaEventRecord");
}

absl::Status CudaEvent::Await(cudaStream_t stream) const {
  return AwaitEvent(stream, get());
}

absl::Status CudaEvent::Synchronize() const {
  return CudaStatus(cudaEventSynchronize(get()), "cudaEventSynchronize");
}

absl::Status AwaitEvent(cudaStream_t waiting, cudaEvent_t event) {
  return CudaStatus(cudaStreamWaitEvent(waiting, event, 0),
                    "cudaStreamWaitEvent");
}

absl::Status AwaitStream(cudaStream_t waiting, cudaStream_t stream,
                         const CudaEvent& event) {
  CKPTDB_RETURN_IF_ERROR(CheckNotCaptured(stream));
  CKPTDB_RETURN_IF_ERROR(event.Record(stream));
  return event.Await(waiting);
}

absl::Status AwaitStream(cudaStream_t waiting, cudaStream_t stream) {
  CKPTDB_ASSIGN_OR_RETURN(const CudaEvent ready, CudaEvent::Create());
  return AwaitStream(waiting, stream, ready);
}

}  // namespace ckptdb::internal
