// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "train_ctr/device/kernels.h"

namespace train_ctr {
namespace {

constexpr uint32_t kThreads = 256;
constexpr uint64_t kMaxBlocks = 4096;

// One thread does so many numbers, each so many blocks' width after the last.
template <typename Operation>
__global__ void __launch_bounds__(kThreads) RunEach(Operation operation) {
  const uint64_t step = uint64_t{gridDim.x} * blockDim.x;
  for (uint64_t i = uint64_t{blockIdx.x} * blockDim.x + threadIdx.x;
       i < operation.count(); i += step) {
    operation.Run(i);
  }
}

// The elements of a matrix, one a thread, as RunTiles makes them on the host.
template <typename Operation>
struct EachElement {
  Operation operation;

  TRAIN_CTR_HOST_DEVICE uint64_t count() const {
    return operation.rows() * operation.columns();
  }
  TRAIN_CTR_HOST_DEVICE void Run(uint64_t i) const {
    operation.template Run<1>(i / operation.columns(), i % operation.columns());
  }
};

template <typename Operation>
cudaError_t LaunchEach(const Operation& operation, cudaStream_t stream) {
  const uint64_t blocks = (operation.count() + kThreads - 1) / kThreads;
  if (blocks == 0) return cudaSuccess;
  Operation argument = operation;
  void* arguments[] = {&argument};
  return cudaLaunchKernel(RunEach<Operation>,
                          static_cast<uint32_t>(std::min(blocks, kMaxBlocks)),
                          kThreads, arguments, 0, stream);
}

}  // namespace

template <typename Operation>
cudaError_t Launch(const Operation& operation, cudaStream_t stream) {
  if constexpr (requires { operation.columns(); }) {
    return LaunchEach(EachElement<Operation>{operation}, stream);
  } else {
    return LaunchEach(operation, stream);
  }
}

template cudaError_t Launch(const ClearIds&, cudaStream_t);
template cudaError_t Launch(const TouchRows&, cudaStream_t);
template cudaError_t Launch(const GatherEmbeddings&, cudaStream_t);
template cudaError_t Launch(const AdagradRows&, cudaStream_t);
template cudaError_t Launch(const EraseRows&, cudaStream_t);
template cudaError_t Launch(const ForwardLayer&, cudaStream_t);
template cudaError_t Launch(const BackwardLayer&, cudaStream_t);
template cudaError_t Launch(const WeightGradient&, cudaStream_t);
template cudaError_t Launch(const AdamStep&, cudaStream_t);

}  // namespace train_ctr
