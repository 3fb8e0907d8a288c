// SPDX-License-Identifier: Apache-2.0
// Copies rows in lanes of 16 bytes between a table and a batch, in which rows
// are adjacent, and computes the digest of a batch; internal to cuda/. A kernel
// assigns each lane to a separate thread.
#ifndef CKPTDB_CUDA_ROWS_ROW_LANES_H_
#define CKPTDB_CUDA_ROWS_ROW_LANES_H_

#include <cstdint>

#include "cuda/rows/host_device.h"

namespace ckptdb::internal {

inline constexpr uint32_t kLaneBytes = 16;

// The maximum number of blocks of a kernel that copies rows or tensors. A
// trainer's stream waits for them, so there are enough to saturate device
// memory. An H100 has room for 1,056 blocks of this size, so that work of other
// streams can run at the same time.
inline constexpr uint32_t kCopyBlocks = 512;

// 16 bytes as the device moves them.
struct alignas(kLaneBytes) Lane {
  uint64_t low = 0;
  uint64_t high = 0;
};

CKPTDB_HOST_DEVICE constexpr uint32_t LanesOf(uint32_t row_bytes) {
  return (row_bytes + kLaneBytes - 1) / kLaneBytes;
}

// Rows of a batch are padded to whole lanes, with zeros.
CKPTDB_HOST_DEVICE constexpr uint64_t PaddedBytes(uint32_t row_bytes) {
  return uint64_t{LanesOf(row_bytes)} * kLaneBytes;
}

// The values of one slot of a table.
struct SlotView {
  char* data = nullptr;
  uint64_t stride_bytes = 0;  // from one row to the next
  uint32_t row_bytes = 0;
};

// Returns the largest number of bytes, up to 16, that can be moved at once: it
// divides the address and the length of every lane of the slot, including the
// last.
CKPTDB_HOST_DEVICE inline uint32_t AlignmentOf(const SlotView& slot) {
  const uint64_t all = reinterpret_cast<uintptr_t>(slot.data) |
                       slot.stride_bytes | slot.row_bytes | kLaneBytes;
  return static_cast<uint32_t>(all & (~all + 1));
}

// Returns the number of bytes in lane `lane` of a row: 16, or fewer in the
// last.
CKPTDB_HOST_DEVICE inline uint32_t LaneBytesOf(uint32_t row_bytes,
                                               uint32_t lane) {
  const uint32_t left = row_bytes - lane * kLaneBytes;
  return left < kLaneBytes ? left : kLaneBytes;
}

// Pieces of a lane, in the sizes that can be moved at once.
template <uint32_t kAlignment>
struct PieceOf;
template <>
struct PieceOf<1> {
  using Type = uint8_t;
};
template <>
struct PieceOf<2> {
  using Type = uint16_t;
};
template <>
struct PieceOf<4> {
  using Type = uint32_t;
};
template <>
struct PieceOf<8> {
  using Type = uint64_t;
};
template <>
struct PieceOf<kLaneBytes> {
  using Type = Lane;
};

// Read and write one piece at an address that is a multiple of its size. The
// device needs a typed access to move it at once; on the host that would
// violate strict aliasing.
template <typename Piece>
CKPTDB_HOST_DEVICE inline Piece ReadPiece(const char* from) {
#if defined(__CUDA_ARCH__)
  return *reinterpret_cast<const Piece*>(from);
#else
  Piece piece;
  __builtin_memcpy(&piece, from, sizeof(piece));
  return piece;
#endif
}
template <typename Piece>
CKPTDB_HOST_DEVICE inline void WritePiece(const Piece& piece, char* to) {
#if defined(__CUDA_ARCH__)
  *reinterpret_cast<Piece*>(to) = piece;
#else
  __builtin_memcpy(to, &piece, sizeof(piece));
#endif
}

// Reads the first `bytes` bytes of a lane, a multiple of kAlignment, and sets
// the others to zero. For each multiple `at` of kAlignment, the bytes from `at`
// on are at address(at), which is a multiple of it too. All loops have constant
// bounds, so that the lane stays in registers.
template <uint32_t kAlignment, typename Address>
CKPTDB_HOST_DEVICE inline Lane GatherPieces(uint32_t bytes,
                                            const Address& address) {
  using Piece = typename PieceOf<kAlignment>::Type;
  if constexpr (kAlignment == kLaneBytes) {
    return ReadPiece<Piece>(address(0));
  } else {
    constexpr uint32_t kHalf = kLaneBytes / 2;
    uint64_t halves[2] = {0, 0};
#if defined(__CUDA_ARCH__)
#pragma unroll
#endif
    for (uint32_t at = 0; at < kLaneBytes; at += kAlignment) {
      if (at >= bytes) continue;
      halves[at / kHalf] |= static_cast<uint64_t>(ReadPiece<Piece>(address(at)))
                            << at % kHalf * 8;
    }
    return {halves[0], halves[1]};
  }
}

// Writes the first `bytes` bytes of a lane in the same way.
template <uint32_t kAlignment, typename Address>
CKPTDB_HOST_DEVICE inline void ScatterPieces(const Lane& lane, uint32_t bytes,
                                             const Address& address) {
  using Piece = typename PieceOf<kAlignment>::Type;
  if constexpr (kAlignment == kLaneBytes) {
    WritePiece<Piece>(lane, address(0));
  } else {
    constexpr uint32_t kHalf = kLaneBytes / 2;
    const uint64_t halves[2] = {lane.low, lane.high};
#if defined(__CUDA_ARCH__)
#pragma unroll
#endif
    for (uint32_t at = 0; at < kLaneBytes; at += kAlignment) {
      if (at >= bytes) continue;
      WritePiece(static_cast<Piece>(halves[at / kHalf] >> at % kHalf * 8),
                 address(at));
    }
  }
}

// Read and write the first `bytes` bytes of a lane at consecutive addresses.
template <uint32_t kAlignment>
CKPTDB_HOST_DEVICE inline Lane ReadPieces(const char* from, uint32_t bytes) {
  return GatherPieces<kAlignment>(bytes,
                                  [=](uint32_t at) { return from + at; });
}
template <uint32_t kAlignment>
CKPTDB_HOST_DEVICE inline void WritePieces(const Lane& lane, uint32_t bytes,
                                           char* to) {
  ScatterPieces<kAlignment>(lane, bytes, [=](uint32_t at) { return to + at; });
}

// Moves every `step`-th lane in [at, lanes), and returns their digest. Several
// lanes are in flight at once: all are read before the first is written,
// because the compiler does not move a read before a write that may alias it.
template <uint32_t kAlignment, typename Move>
CKPTDB_HOST_DEVICE inline uint64_t MoveLanes(const Move& move, uint64_t at,
                                             uint64_t lanes, uint64_t step) {
  constexpr uint32_t kTogether = 4;
  uint64_t digest = 0;
  for (; at + (kTogether - 1) * step < lanes; at += kTogether * step) {
    Lane values[kTogether];
#if defined(__CUDA_ARCH__)
#pragma unroll
#endif
    for (uint32_t t = 0; t < kTogether; ++t) {
      values[t] = move.template Read<kAlignment>(at + t * step);
    }
#if defined(__CUDA_ARCH__)
#pragma unroll
#endif
    for (uint32_t t = 0; t < kTogether; ++t) {
      digest += move.template Write<kAlignment>(at + t * step, values[t]);
    }
  }
  for (; at < lanes; at += step) {
    digest +=
        move.template Write<kAlignment>(at, move.template Read<kAlignment>(at));
  }
  return digest;
}

// Reads lane `lane` of a table's row. Bytes beyond the row are zero.
template <uint32_t kAlignment>
CKPTDB_HOST_DEVICE inline Lane ReadLane(const SlotView& slot, uint64_t row,
                                        uint32_t lane) {
  return ReadPieces<kAlignment>(
      slot.data + row * slot.stride_bytes + uint64_t{lane} * kLaneBytes,
      LaneBytesOf(slot.row_bytes, lane));
}

// Writes lane `lane` of a table's row, and nothing beyond the row.
template <uint32_t kAlignment>
CKPTDB_HOST_DEVICE inline void WriteLane(const SlotView& slot, uint64_t row,
                                         uint32_t lane, const Lane& value) {
  WritePieces<kAlignment>(
      value, LaneBytesOf(slot.row_bytes, lane),
      slot.data + row * slot.stride_bytes + uint64_t{lane} * kLaneBytes);
}

// Mixes a lane with its place in the batch. The digest of a batch is the sum of
// its mixed lanes, which may be added in any order; exchanging two lanes
// changes the sum.
CKPTDB_HOST_DEVICE inline uint64_t MixLane(uint64_t place, const Lane& value) {
  constexpr uint64_t kFirst = 0x9e3779b97f4a7c15;
  constexpr uint64_t kSecond = 0xbf58476d1ce4e5b9;
  constexpr uint64_t kThird = 0x94d049bb133111eb;
  uint64_t mixed = (place + 1) * kFirst;
  mixed = (mixed ^ (mixed >> 30) ^ value.low) * kSecond;
  mixed = (mixed ^ (mixed >> 27) ^ value.high) * kThird;
  mixed = (mixed ^ (mixed >> 31)) * kFirst;
  return mixed ^ (mixed >> 32);
}

}  // namespace ckptdb::internal

#endif  // CKPTDB_CUDA_ROWS_ROW_LANES_H_
