// SPDX-License-Identifier: Apache-2.0
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

// Returns OK for cudaSuccess; ResourceExhausted if the device or the host is
// out of memory; Unavailable if there is no device or driver; InvalidArgument
// for a value that the runtime rejects; FailedPrecondition for a call that is
// not allowed during a stream capture, and for kernels that were not compiled
// for the device; otherwise Internal, such as for a kernel fault, after which
// every CUDA call of the process fails. `call` names the call and its
// arguments. The error is cleared, so that the trainer's cudaGetLastError does
// not return it.
absl::Status CudaStatus(cudaError_t error, absl::string_view call);
// The same for the driver's errors, which have the runtime's numbers and are
// not sticky.
absl::Status DriverStatus(cudaError_t error, absl::string_view call);

}  // namespace ckptdb::internal

#endif  // CKPTDB_CUDA_RUNTIME_STATUS_H_
