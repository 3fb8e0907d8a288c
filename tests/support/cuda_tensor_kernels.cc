// The kernels of cuda/ as loops on the stand-in for the runtime: the same
// mathematics, with which they read and write when the stand-in lets them.
#include "ckptdb/cuda/kernels/tensor_kernels.h"
#include "ckptdb/tests/support/cuda_standin.h"

namespace ckptdb::internal {
namespace {

using testing::CudaStandin;

// Moves each piece with move.template operator()<unit>(piece, lane).
template <typename MoveLane>
void MovePieces(const TensorPiece* pieces, uint64_t count, uint64_t* digests,
                MoveLane move) {
  for (uint64_t p = 0; p < count; ++p) {
    CudaStandin::ExpectDeviceMemory(AddressOf(pieces[p], pieces[p].first), 1);
    uint64_t digest = 0;
    WithUnit(pieces[p], [&]<uint32_t kUnit>() {
      for (uint64_t lane = 0; lane < LanesOf(pieces[p]); ++lane) {
        digest += move.template operator()<kUnit>(pieces[p], lane);
      }
    });
    digests[p] = digest;
  }
}

}  // namespace

cudaError_t LaunchPack(const TensorPiece* pieces, uint64_t count, char* packed,
                       uint64_t* digests, cudaStream_t stream) {
  return CudaStandin::Queue(
      stream, "pack",
      [=] {
        MovePieces(
            pieces, count, digests,
            [=]<uint32_t kUnit>(const TensorPiece& piece, uint64_t lane) {
              return PackLane<kUnit>(piece, lane, packed);
            });
      },
      {{pieces, count * sizeof(TensorPiece)},
       {digests, count * sizeof(uint64_t)}});
}

cudaError_t LaunchUnpack(const TensorPiece* pieces, uint64_t count,
                         const char* packed, uint64_t* digests,
                         cudaStream_t stream) {
  return CudaStandin::Queue(
      stream, "unpack",
      [=] {
        MovePieces(
            pieces, count, digests,
            [=]<uint32_t kUnit>(const TensorPiece& piece, uint64_t lane) {
              return UnpackLane<kUnit>(piece, lane, packed);
            });
      },
      {{pieces, count * sizeof(TensorPiece)},
       {digests, count * sizeof(uint64_t)}});
}

}  // namespace ckptdb::internal
