// SPDX-License-Identifier: Apache-2.0
// Pieces of tensors: packing and unpacking them, and their digests; internal to
// cuda/. A kernel assigns each piece to a thread block and each lane to a
// thread.
#ifndef CKPTDB_CUDA_KERNELS_PIECE_H_
#define CKPTDB_CUDA_KERNELS_PIECE_H_

#include <cstdint>

#include "cuda/rows/host_device.h"
#include "cuda/rows/row_lanes.h"

namespace ckptdb::internal {

// Large enough to keep a thread block busy, small enough for a tensor to fill
// many blocks.
inline constexpr uint64_t kMaxPieceBytes = uint64_t{1} << 20;

// A range of a tensor's bytes in row-major order, and its place in a packed
// buffer, a multiple of kLaneBytes. In the buffer it has whole lanes, and the
// last one is padded with zeros.
struct TensorPiece {
  char* tensor = nullptr;
  uint64_t first = 0;
  uint64_t bytes = 0;  // at least 1, at most kMaxPieceBytes
  uint64_t packed = 0;
  // For rows that are not adjacent: the bytes of a row, and from one row to the
  // next. stride_bytes 0: the tensor is contiguous.
  uint64_t row_bytes = 0;
  uint64_t stride_bytes = 0;
};

CKPTDB_HOST_DEVICE inline uint64_t LanesOf(const TensorPiece& piece) {
  return (piece.bytes + kLaneBytes - 1) / kLaneBytes;
}

// Returns the largest number of bytes, up to 16, that can be moved at once: it
// divides every address and, for rows that are not adjacent, every length.
CKPTDB_HOST_DEVICE inline uint32_t UnitOf(const TensorPiece& piece) {
  uint64_t all =
      reinterpret_cast<uintptr_t>(piece.tensor) | piece.first | kLaneBytes;
  if (piece.stride_bytes != 0) {
    all |= piece.stride_bytes | piece.row_bytes | piece.bytes;
  }
  return static_cast<uint32_t>(all & (~all + 1));
}

// Returns the address of a byte of the tensor.
CKPTDB_HOST_DEVICE inline char* AddressOf(const TensorPiece& piece,
                                          uint64_t byte) {
  if (piece.stride_bytes == 0) return piece.tensor + byte;
  return piece.tensor + byte / piece.row_bytes * piece.stride_bytes +
         byte % piece.row_bytes;
}

// Returns the number of bytes of a piece in its lane `lane`.
CKPTDB_HOST_DEVICE inline uint32_t BytesOfLane(const TensorPiece& piece,
                                               uint64_t lane) {
  const uint64_t left = piece.bytes - lane * kLaneBytes;
  return static_cast<uint32_t>(left < kLaneBytes ? left : kLaneBytes);
}

// Reads a lane of a tensor; kUnit is UnitOf the piece. Rows that are not
// adjacent consist of whole units; a contiguous piece may end within one.
template <uint32_t kUnit>
CKPTDB_HOST_DEVICE inline Lane ReadLane(const TensorPiece& piece,
                                        uint64_t lane) {
  const uint64_t from = piece.first + lane * kLaneBytes;
  const uint32_t bytes = BytesOfLane(piece, lane);
  if (piece.stride_bytes != 0) {
    return GatherPieces<kUnit>(
        bytes, [&](uint32_t at) { return AddressOf(piece, from + at); });
  }
  return bytes == kLaneBytes
             ? ReadPieces<kUnit>(piece.tensor + from, kLaneBytes)
             : ReadPieces<1>(piece.tensor + from, bytes);
}

// Writes a lane of a tensor, and nothing beyond the piece.
template <uint32_t kUnit>
CKPTDB_HOST_DEVICE inline void WriteLane(const TensorPiece& piece,
                                         uint64_t lane, const Lane& value) {
  const uint64_t to = piece.first + lane * kLaneBytes;
  const uint32_t bytes = BytesOfLane(piece, lane);
  if (piece.stride_bytes != 0) {
    ScatterPieces<kUnit>(
        value, bytes, [&](uint32_t at) { return AddressOf(piece, to + at); });
  } else if (bytes == kLaneBytes) {
    WritePieces<kUnit>(value, kLaneBytes, piece.tensor + to);
  } else {
    WritePieces<1>(value, bytes, piece.tensor + to);
  }
}

// A piece's digest is the sum of its lanes, each mixed with its place in the
// buffer.
CKPTDB_HOST_DEVICE inline uint64_t MixLane(const TensorPiece& piece,
                                           uint64_t lane, const Lane& value) {
  return MixLane(piece.packed / kLaneBytes + lane, value);
}

// Packs a piece, and pads its last lane with zeros.
struct PackPiece {
  using Buffer = char*;

  const TensorPiece& piece;
  Buffer packed = nullptr;

  template <uint32_t kUnit>
  CKPTDB_HOST_DEVICE Lane Read(uint64_t lane) const {
    return ReadLane<kUnit>(piece, lane);
  }
  // Returns the lane's term of the digest.
  template <uint32_t kUnit>
  CKPTDB_HOST_DEVICE uint64_t Write(uint64_t lane, const Lane& value) const {
    WritePiece(value, packed + piece.packed + lane * kLaneBytes);
    return MixLane(piece, lane, value);
  }
};

// Unpacks a piece. The padding of its last lane counts as zeros.
struct UnpackPiece {
  using Buffer = const char*;

  const TensorPiece& piece;
  Buffer packed = nullptr;

  template <uint32_t kUnit>
  CKPTDB_HOST_DEVICE Lane Read(uint64_t lane) const {
    const char* const from = packed + piece.packed + lane * kLaneBytes;
    const uint32_t bytes = BytesOfLane(piece, lane);
    return bytes == kLaneBytes ? ReadPiece<Lane>(from)
                               : ReadPieces<1>(from, bytes);
  }
  template <uint32_t kUnit>
  CKPTDB_HOST_DEVICE uint64_t Write(uint64_t lane, const Lane& value) const {
    WriteLane<kUnit>(piece, lane, value);
    return MixLane(piece, lane, value);
  }
};

// Calls function.template operator()<unit>() with the unit of the piece.
template <typename Function>
CKPTDB_HOST_DEVICE inline void WithUnit(const TensorPiece& piece,
                                        Function&& function) {
  switch (UnitOf(piece)) {
    case 16:
      return function.template operator()<16>();
    case 8:
      return function.template operator()<8>();
    case 4:
      return function.template operator()<4>();
    case 2:
      return function.template operator()<2>();
    default:
      return function.template operator()<1>();
  }
}

// Returns the digest of a piece whose bytes are contiguous in host memory.
uint64_t DigestOf(const TensorPiece& piece, const char* bytes);

}  // namespace ckptdb::internal

#endif  // CKPTDB_CUDA_KERNELS_PIECE_H_
