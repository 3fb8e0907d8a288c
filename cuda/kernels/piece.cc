// SPDX-License-Identifier: Apache-2.0
#include "cuda/kernels/piece.h"

namespace ckptdb::internal {

uint64_t DigestOf(const TensorPiece& piece, const char* bytes) {
  uint64_t digest = 0;
  const uint64_t lanes = LanesOf(piece);
  for (uint64_t lane = 0; lane < lanes; ++lane) {
    Lane value;
    // Copies of constant size are fast, so only the last lane has a variable
    // one.
    if (const uint32_t some = BytesOfLane(piece, lane); some == kLaneBytes) {
      __builtin_memcpy(&value, bytes + lane * kLaneBytes, kLaneBytes);
    } else {
      __builtin_memcpy(&value, bytes + lane * kLaneBytes, some);
    }
    digest += MixLane(piece, lane, value);
  }
  return digest;
}

}  // namespace ckptdb::internal
