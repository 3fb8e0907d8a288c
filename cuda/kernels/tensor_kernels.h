// SPDX-License-Identifier: Apache-2.0
// The kernels of tensors; internal to cuda/.
#ifndef CKPTDB_CUDA_KERNELS_TENSOR_KERNELS_H_
#define CKPTDB_CUDA_KERNELS_TENSOR_KERNELS_H_

#include <cuda_runtime_api.h>

#include <cstdint>

#include "cuda/kernels/piece.h"

namespace ckptdb::internal {

// Loads both kernels for the current device.
cudaError_t LoadTensorKernels();

// Queue on `stream` the packing of `count` pieces, at least 1, into `packed`,
// or their unpacking. digests[i] is set to the digest of pieces[i], computed
// from the packed bytes. All memory is on the device.
cudaError_t LaunchPack(const TensorPiece* pieces, uint64_t count, char* packed,
                       uint64_t* digests, cudaStream_t stream);
cudaError_t LaunchUnpack(const TensorPiece* pieces, uint64_t count,
                         const char* packed, uint64_t* digests,
                         cudaStream_t stream);

}  // namespace ckptdb::internal

#endif  // CKPTDB_CUDA_KERNELS_TENSOR_KERNELS_H_
