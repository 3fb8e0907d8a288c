// SPDX-License-Identifier: Apache-2.0
// The kernels of the model in GPU memory. Each call puts work on a stream and
// returns at once, with cudaSuccess or the launch's error. Pointers are to
// device memory that stays valid until the work has ended.
//
// They are loops over the functions of operations.h and math/layer_math.h.
#ifndef CKPTDB_EXAMPLES_TRAIN_CTR_DEVICE_KERNELS_H_
#define CKPTDB_EXAMPLES_TRAIN_CTR_DEVICE_KERNELS_H_

#include <cuda_runtime_api.h>

#include "train_ctr/device/operations.h"
#include "train_ctr/math/layer_math.h"

namespace train_ctr {

// Queues an operation of operations.h or math/layer_math.h.
template <typename Operation>
cudaError_t Launch(const Operation& operation, cudaStream_t stream);

}  // namespace train_ctr

#endif  // CKPTDB_EXAMPLES_TRAIN_CTR_DEVICE_KERNELS_H_
