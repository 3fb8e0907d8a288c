// SPDX-License-Identifier: Apache-2.0
// A CudaDevice in host memory, for machines without a GPU; internal to cuda/.
#ifndef CKPTDB_CUDA_TENSORS_HOST_BACKEND_H_
#define CKPTDB_CUDA_TENSORS_HOST_BACKEND_H_

#include <memory>

#include "cuda/cuda_device.h"

namespace ckptdb::internal {

// Ignores the streams and events of its tensors: the trainer's work is done
// when it returns. SetAside copies at once. Calls no CUDA.
std::unique_ptr<CudaDevice> NewHostBackend();

}  // namespace ckptdb::internal

#endif  // CKPTDB_CUDA_TENSORS_HOST_BACKEND_H_
