// The kernels of cuda/ as loops on the stand-in for the runtime: the same
// mathematics, with which they read and write when the stand-in lets them.
#include "ckptdb/cuda/kernels/tensor_kernels.h"
#include "ckptdb/tests/support/cuda_standin.h"

namespace ckptdb::internal {
namespace {

using testing::CudaStandin;

// Move is PackPiece or UnpackPiece.
template <typename Move>
void MovePieces(const TensorPiece* pieces, uint64_t count,
                typename Move::Buffer packed, uint64_t* digests) {
  for (uint64_t p = 0; p < count; ++p) {
    CudaStandin::ExpectDeviceMemory(AddressOf(pieces[p], pieces[p].first), 1);
    const Move move = {pieces[p], packed};
    WithUnit(pieces[p], [&]<uint32_t kUnit>() {
      digests[p] = MoveLanes<kUnit>(move, 0, LanesOf(pieces[p]), 1);
    });
  }
}

template <typename Move>
cudaError_t QueueMove(const char* name, const TensorPiece* pieces,
                      uint64_t count, typename Move::Buffer packed,
                      uint64_t* digests, cudaStream_t stream) {
  return CudaStandin::Queue(
      stream, name, [=] { MovePieces<Move>(pieces, count, packed, digests); },
      {{pieces, count * sizeof(TensorPiece)},
       {digests, count * sizeof(uint64_t)}});
}

}  // namespace

cudaError_t LoadTensorKernels() { return cudaSuccess; }

cudaError_t LaunchPack(const TensorPiece* pieces, uint64_t count, char* packed,
                       uint64_t* digests, cudaStream_t stream) {
  return QueueMove<PackPiece>("pack", pieces, count, packed, digests, stream);
}

cudaError_t LaunchUnpack(const TensorPiece* pieces, uint64_t count,
                         const char* packed, uint64_t* digests,
                         cudaStream_t stream) {
  return QueueMove<UnpackPiece>("unpack", pieces, count, packed, digests,
                                stream);
}

}  // namespace ckptdb::internal
