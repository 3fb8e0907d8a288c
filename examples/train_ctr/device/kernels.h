// The kernels of the model in GPU memory. Each call puts work on a stream and
// returns at once, with cudaSuccess or the error of the launch. What a pointer
// points to is in device memory and stays until the work has ended.
//
// They are loops over the functions of operations.h and math/layer_math.h. The
// tests without a GPU link others in their place, which run the same functions
// over a stand-in for the runtime: tests/support/train_ctr_kernels.cc.
#ifndef CKPTDB_EXAMPLES_TRAIN_CTR_DEVICE_KERNELS_H_
#define CKPTDB_EXAMPLES_TRAIN_CTR_DEVICE_KERNELS_H_

#include <cuda_runtime_api.h>

#include "train_ctr/device/operations.h"
#include "train_ctr/math/layer_math.h"

namespace train_ctr {

cudaError_t Launch(const ClearIds& operation, cudaStream_t stream);
cudaError_t Launch(const TouchRows& operation, cudaStream_t stream);
cudaError_t Launch(const GatherEmbeddings& operation, cudaStream_t stream);
cudaError_t Launch(const AdagradRows& operation, cudaStream_t stream);
cudaError_t Launch(const EraseRows& operation, cudaStream_t stream);

cudaError_t Launch(const ForwardLayer& operation, cudaStream_t stream);
cudaError_t Launch(const BackwardLayer& operation, cudaStream_t stream);
cudaError_t Launch(const WeightGradient& operation, cudaStream_t stream);
cudaError_t Launch(const AdamStep& operation, cudaStream_t stream);

}  // namespace train_ctr

#endif  // CKPTDB_EXAMPLES_TRAIN_CTR_DEVICE_KERNELS_H_
