// Errors of the CUDA runtime as absl::Status; internal to cuda/.
//
//   CKPTDB_RETURN_IF_ERROR(
//       CudaStatus(cudaEventRecord(event, stream), "cudaEventRecord"));
#ifndef CKPTDB_CUDA_RUNTIME_STATUS_H_
#define CKPTDB_CUDA_RUNTIME_STATUS_H_

#include <cuda_runtime_api.h>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace ckptdb::internal {

// Returns OK for cudaSuccess; ResourceExhausted if the device or the host has
// no such memory; Unavailable if there is no device or driver; InvalidArgument
// for a value that the runtime refuses; FailedPrecondition for what is not
// allowed while a stream is captured into a graph, and for kernels that were
// not compiled for the device; and else Internal, as after an error of a
// kernel, which no later call of the process overcomes. `call` names the call,
// with what it was asked for. An error is reported once: it is not left for a
// trainer that asks the runtime for its last one.
absl::Status CudaStatus(cudaError_t error, absl::string_view call);
// Does so with an error of the driver, whose errors have the numbers of the
// runtime's and are not kept.
absl::Status DriverStatus(cudaError_t error, absl::string_view call);

}  // namespace ckptdb::internal

#endif  // CKPTDB_CUDA_RUNTIME_STATUS_H_
