// SPDX-License-Identifier: Apache-2.0
#include "cuda/kernels/tensor_kernels.h"

#include "cuda/kernels/launch.h"

namespace ckptdb::internal {
namespace {

constexpr uint32_t kThreads = 256;

// Adds up the values of a block's threads. Thread 0 returns the sum.
__device__ uint64_t SumOfBlock(uint64_t value) {
  __shared__ uint64_t warps[kThreads / 32];
  for (int other = 16; other > 0; other /= 2) {
    value += __shfl_down_sync(0xffffffff, value, other);
  }
  __syncthreads();  // all have read the previous sum
  if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = value;
  __syncthreads();
  uint64_t sum = 0;
  if (threadIdx.x == 0) {
    for (const uint64_t warp : warps) sum += warp;
  }
  return sum;
}

// Blocks take pieces in turn. Move is PackPiece or UnpackPiece.
template <typename Move>
__global__ void __launch_bounds__(kThreads)
    MovePieces(const TensorPiece* pieces, uint64_t count,
               typename Move::Buffer packed, uint64_t* digests) {
  for (uint64_t p = blockIdx.x; p < count; p += gridDim.x) {
    const TensorPiece piece = pieces[p];
    const Move move = {piece, packed};
    uint64_t digest = 0;
    WithUnit(piece, [&]<uint32_t kUnit>() {
      digest = MoveLanes<kUnit>(move, threadIdx.x, LanesOf(piece), blockDim.x);
    });
    const uint64_t sum = SumOfBlock(digest);
    if (threadIdx.x == 0) digests[p] = sum;
  }
}

uint32_t BlocksFor(uint64_t count) {
  return static_cast<uint32_t>(count < kCopyBlocks ? count : kCopyBlocks);
}

}  // namespace

cudaError_t LoadTensorKernels() {
  return Load(MovePieces<PackPiece>, MovePieces<UnpackPiece>);
}

cudaError_t LaunchPack(const TensorPiece* pieces, uint64_t count, char* packed,
                       uint64_t* digests, cudaStream_t stream) {
  return Launch(MovePieces<PackPiece>, BlocksFor(count), kThreads, stream,
                pieces, count, packed, digests);
}

cudaError_t LaunchUnpack(const TensorPiece* pieces, uint64_t count,
                         const char* packed, uint64_t* digests,
                         cudaStream_t stream) {
  return Launch(MovePieces<UnpackPiece>, BlocksFor(count), kThreads, stream,
                pieces, count, packed, digests);
}

}  // namespace ckptdb::internal
