// Pieces of tensors, how they are packed one after the other and put back, and
// their digests; internal to cuda/. A kernel gives each piece to a block of
// threads and each lane of it to one of them.
#ifndef CKPTDB_CUDA_KERNELS_PIECE_H_
#define CKPTDB_CUDA_KERNELS_PIECE_H_

#include <cstdint>

#include "ckptdb/cuda/rows/host_device.h"
#include "ckptdb/cuda/rows/row_lanes.h"

namespace ckptdb::internal {

// It is large enough to keep a block of threads busy, and small enough for a
// tensor to have work for many blocks.
inline constexpr uint64_t kMaxPieceBytes = uint64_t{1} << 20;

// A stretch of the bytes of a tensor, in row-major order, and its place in a
// packed buffer, which is a multiple of kLaneBytes. There it has whole lanes,
// of which the last one ends with zeros.
struct TensorPiece {
  char* tensor = nullptr;
  uint64_t first = 0;
  uint64_t bytes = 0;  // at least 1, at most kMaxPieceBytes
  uint64_t packed = 0;
  // Rows that lie apart: their bytes, and those from one to the next. If
  // stride_bytes is 0, the tensor is contiguous.
  uint64_t row_bytes = 0;
  uint64_t stride_bytes = 0;
};

CKPTDB_HOST_DEVICE inline uint64_t LanesOf(const TensorPiece& piece) {
  return (piece.bytes + kLaneBytes - 1) / kLaneBytes;
}

// Returns the most bytes, up to 16, that can be moved at once: what divides
// every address, and of rows that lie apart every length as well.
CKPTDB_HOST_DEVICE inline uint32_t UnitOf(const TensorPiece& piece) {
  uint64_t all =
      reinterpret_cast<uintptr_t>(piece.tensor) | piece.first | kLaneBytes;
  if (piece.stride_bytes != 0) {
    all |= piece.stride_bytes | piece.row_bytes | piece.bytes;
  }
  return static_cast<uint32_t>(all & (~all + 1));
}

// Returns where a byte of the tensor is.
CKPTDB_HOST_DEVICE inline char* AddressOf(const TensorPiece& piece,
                                          uint64_t byte) {
  if (piece.stride_bytes == 0) return piece.tensor + byte;
  return piece.tensor + byte / piece.row_bytes * piece.stride_bytes +
         byte % piece.row_bytes;
}

// Returns how many bytes of a piece are in its lane `lane`.
CKPTDB_HOST_DEVICE inline uint32_t BytesOfLane(const TensorPiece& piece,
                                               uint64_t lane) {
  const uint64_t left = piece.bytes - lane * kLaneBytes;
  return static_cast<uint32_t>(left < kLaneBytes ? left : kLaneBytes);
}

// Copies `bytes` bytes, at most 16, in units of kUnit; what is left over is
// copied byte by byte. Both addresses are multiples of kUnit. The device needs
// a typed access to move a unit at once; on the host that would break the rule
// that memory is read as what it was written.
template <uint32_t kUnit>
CKPTDB_HOST_DEVICE inline void CopyUnits(const char* from, uint32_t bytes,
                                         char* to) {
  uint32_t at = 0;
  for (; at + kUnit <= bytes; at += kUnit) {
#if defined(__CUDA_ARCH__)
    using Unit = typename PieceOf<kUnit>::Type;
    *reinterpret_cast<Unit*>(to + at) =
        *reinterpret_cast<const Unit*>(from + at);
#else
    __builtin_memcpy(to + at, from + at, kUnit);
#endif
  }
  for (; at < bytes; ++at) to[at] = from[at];
}

// Reads a lane of a tensor; kUnit is UnitOf the piece.
template <uint32_t kUnit>
CKPTDB_HOST_DEVICE inline Lane ReadLane(const TensorPiece& piece,
                                        uint64_t lane) {
  Lane value;
  char* const to = reinterpret_cast<char*>(&value);
  const uint64_t from = piece.first + lane * kLaneBytes;
  const uint32_t bytes = BytesOfLane(piece, lane);
  if (piece.stride_bytes == 0) {
    CopyUnits<kUnit>(piece.tensor + from, bytes, to);
    return value;
  }
  for (uint32_t at = 0; at < bytes; at += kUnit) {
    CopyUnits<kUnit>(AddressOf(piece, from + at), kUnit, to + at);
  }
  return value;
}

// Writes a lane of a tensor, and nothing beyond the piece.
template <uint32_t kUnit>
CKPTDB_HOST_DEVICE inline void WriteLane(const TensorPiece& piece,
                                         uint64_t lane, const Lane& value) {
  const char* const from = reinterpret_cast<const char*>(&value);
  const uint64_t to = piece.first + lane * kLaneBytes;
  const uint32_t bytes = BytesOfLane(piece, lane);
  if (piece.stride_bytes == 0) {
    CopyUnits<kUnit>(from, bytes, piece.tensor + to);
    return;
  }
  for (uint32_t at = 0; at < bytes; at += kUnit) {
    CopyUnits<kUnit>(from + at, kUnit, AddressOf(piece, to + at));
  }
}

// Reads and writes a lane of a packed buffer. What is beyond the piece is zero.
CKPTDB_HOST_DEVICE inline Lane ReadPacked(const TensorPiece& piece,
                                          const char* packed, uint64_t lane) {
  Lane value;
  CopyUnits<kLaneBytes>(packed + piece.packed + lane * kLaneBytes,
                        BytesOfLane(piece, lane),
                        reinterpret_cast<char*>(&value));
  return value;
}
CKPTDB_HOST_DEVICE inline void WritePacked(const TensorPiece& piece,
                                           char* packed, uint64_t lane,
                                           const Lane& value) {
  CopyUnits<kLaneBytes>(reinterpret_cast<const char*>(&value), kLaneBytes,
                        packed + piece.packed + lane * kLaneBytes);
}

// The digest of a piece is the sum of its lanes, each mixed with its place in
// the buffer.
CKPTDB_HOST_DEVICE inline uint64_t MixLane(const TensorPiece& piece,
                                           uint64_t lane, const Lane& value) {
  return MixLane(piece.packed / kLaneBytes + lane, value);
}

// Packs a lane, or puts it back, and returns its share of the digest.
template <uint32_t kUnit>
CKPTDB_HOST_DEVICE inline uint64_t PackLane(const TensorPiece& piece,
                                            uint64_t lane, char* packed) {
  const Lane value = ReadLane<kUnit>(piece, lane);
  WritePacked(piece, packed, lane, value);
  return MixLane(piece, lane, value);
}
template <uint32_t kUnit>
CKPTDB_HOST_DEVICE inline uint64_t UnpackLane(const TensorPiece& piece,
                                              uint64_t lane,
                                              const char* packed) {
  const Lane value = ReadPacked(piece, packed, lane);
  WriteLane<kUnit>(piece, lane, value);
  return MixLane(piece, lane, value);
}

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

// Returns the digest of a piece whose bytes are in host memory, one after the
// other.
uint64_t DigestOf(const TensorPiece& piece, const char* bytes);

}  // namespace ckptdb::internal

#endif  // CKPTDB_CUDA_KERNELS_PIECE_H_
