// A device whose memory is host memory, for a machine without a GPU; internal
// to cuda/.
#ifndef CKPTDB_CUDA_TENSORS_HOST_BACKEND_H_
#define CKPTDB_CUDA_TENSORS_HOST_BACKEND_H_

#include <memory>

#include "ckptdb/cuda/cuda_device.h"

namespace ckptdb::internal {

// Streams and events of its tensors are not looked at: what the trainer has
// done is done. What is set aside is copied at once. Calls no CUDA.
std::unique_ptr<CudaDevice> NewHostBackend();

}  // namespace ckptdb::internal

#endif  // CKPTDB_CUDA_TENSORS_HOST_BACKEND_H_
