#include "ckptdb/cuda/runtime/stream.h"

#include "absl/strings/str_cat.h"
#include "ckptdb/cuda/runtime/status.h"
#include "ckptdb/schema/status.h"

namespace ckptdb::internal {

absl::StatusOr<DeviceScope> DeviceScope::Enter(int device) {
  int before = 0;
  CKPTDB_RETURN_IF_ERROR(CudaStatus(cudaGetDevice(&before), "cudaGetDevice"));
  if (before == device) return DeviceScope(before, false);
  CKPTDB_RETURN_IF_ERROR(CudaStatus(
      cudaSetDevice(device), absl::StrCat("cudaSetDevice(", device, ")")));
  return DeviceScope(before, true);
}

DeviceScope::~DeviceScope() {
  if (entered_) cudaSetDevice(before_);
}

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

absl::Status AwaitStream(cudaStream_t waiting, cudaStream_t stream) {
  CKPTDB_ASSIGN_OR_RETURN(const CudaEvent ready, CudaEvent::Create());
  CKPTDB_RETURN_IF_ERROR(ready.Record(stream));
  return ready.Await(waiting);
}

}  // namespace ckptdb::internal
