// SPDX-License-Identifier: Apache-2.0
// Encodes rows of f32 with a lossy codec while gathering them, so that only
// their codes cross the bus; internal to cuda/. Each function is the work of
// one thread; tests run them one after another on the host.
//
// The arithmetic is that of schema/bytes/quantize.h, which encodes host tables
// too, so the stored bytes are the same. It adds no rounded product, so fused
// multiply-adds would not change it; as a second safeguard, the kernels are
// compiled with --fmad=false --ftz=false.
//
// If a slot contains a number that has no code, the whole slot is refused and
// leaves the device unencoded. Such numbers are infinities and NaNs with int8,
// whose row is stored verbatim, and finite numbers that bf16 would round to an
// infinity, whose page is stored verbatim.
#ifndef CKPTDB_CUDA_ROWS_ROW_CODES_H_
#define CKPTDB_CUDA_ROWS_ROW_CODES_H_

#include <cstdint>

#include "cuda/rows/host_device.h"
#include "cuda/rows/row_lanes.h"
#include "schema/bytes/quantize.h"

namespace ckptdb::internal {

inline constexpr uint32_t kF32Bytes = sizeof(float);
inline constexpr uint32_t kLaneNumbers = kLaneBytes / kF32Bytes;

// Statistics of a slot's numbers, collected while they are encoded. Magnitudes
// are the bits of nonnegative floats, which sort as the floats do.
struct CodesFound {
  // All bits are set, so that a bit flipped in transit does not make it 0.
  static constexpr uint32_t kRefused = ~uint32_t{0};

  uint32_t error = 0;      // the largest error of a finite number
  uint32_t magnitude = 0;  // the largest finite one, with bf16
  uint32_t refused = 0;    // kRefused: some number has no code

  CKPTDB_HOST_DEVICE void Add(const CodesFound& other) {
    error = error < other.error ? other.error : error;
    magnitude = magnitude < other.magnitude ? other.magnitude : magnitude;
    refused |= other.refused;
  }
  // Adds one thread's statistics to those of all threads.
  CKPTDB_HOST_DEVICE void AddTo(CodesFound* all) const {
    if (error != 0) AtomicMax(&all->error, error);
    if (magnitude != 0) AtomicMax(&all->magnitude, magnitude);
    if (refused != 0) AtomicOr(&all->refused, refused);
  }
};

// Returns the bits of number `n` of a lane.
CKPTDB_HOST_DEVICE inline uint32_t NumberOf(const Lane& lane, uint32_t n) {
  const uint64_t half = n < 2 ? lane.low : lane.high;
  return static_cast<uint32_t>(half >> n % 2 * 32);
}

CKPTDB_HOST_DEVICE inline uint32_t MagnitudeOf(float number) {
  return FloatBits(number) & kFloatMagnitude;
}

// The rows of a slot to encode, and the location of their numbers.
struct NumberRows {
  SlotView slot;                   // f32
  const uint32_t* rows = nullptr;  // null: the rows from `first` on
  uint64_t first = 0;              // of the list of rows
  uint64_t count = 0;

  CKPTDB_HOST_DEVICE uint32_t Numbers() const {
    return slot.row_bytes / kF32Bytes;
  }
  CKPTDB_HOST_DEVICE uint32_t NumberLanes() const {
    return LanesOf(slot.row_bytes);
  }
  CKPTDB_HOST_DEVICE uint64_t RowOf(uint64_t i) const {
    return rows == nullptr ? first + i : rows[first + i];
  }
  // Returns the number of numbers in a lane.
  CKPTDB_HOST_DEVICE uint32_t NumbersIn(uint32_t lane) const {
    return LaneBytesOf(slot.row_bytes, lane) / kF32Bytes;
  }
};

// Encodes rows as bf16, padded to whole lanes with zeros. A thread computes a
// lane of 8 codes.
struct EncodeBf16Rows {
  NumberRows from;
  Lane* batch = nullptr;
  uint64_t* digest = nullptr;   // the sum is added to it
  CodesFound* found = nullptr;  // the statistics are added to it

  CKPTDB_HOST_DEVICE uint32_t LanesOfRow() const {
    return LanesOf(from.slot.row_bytes / 2);
  }
  CKPTDB_HOST_DEVICE uint64_t Lanes() const {
    return from.count * LanesOfRow();
  }

  // Computes lane `at` of the batch. Returns its term of the digest.
  template <uint32_t kAlignment>
  CKPTDB_HOST_DEVICE uint64_t Run(uint64_t at, CodesFound* mine) const {
    const uint32_t lanes = LanesOfRow();
    const uint64_t i = at / lanes;
    const uint32_t first = static_cast<uint32_t>(at - i * lanes) * 2;
    const uint64_t row = from.RowOf(i);
    const Lane value = {Halves<kAlignment>(row, first, mine),
                        Halves<kAlignment>(row, first + 1, mine)};
    batch[at] = value;
    return MixLane(at, value);
  }

  // Returns the codes of a lane of numbers; 0 beyond the row.
  template <uint32_t kAlignment>
  CKPTDB_HOST_DEVICE uint64_t Halves(uint64_t row, uint32_t lane,
                                     CodesFound* mine) const {
    if (lane >= from.NumberLanes()) return 0;
    const Lane numbers = ReadLane<kAlignment>(from.slot, row, lane);
    uint64_t halves = 0;
#if defined(__CUDA_ARCH__)
#pragma unroll
#endif
    for (uint32_t n = 0; n < kLaneNumbers; ++n) {
      const uint32_t bits = NumberOf(numbers, n);
      const uint16_t half = EncodeBf16(bits);
      halves |= static_cast<uint64_t>(half) << n * 16;
      if (!IsFiniteFloat(bits)) continue;
      mine->Add({MagnitudeOf(FloatOf(bits) - FloatOf(DecodeBf16(half))),
                 bits & kFloatMagnitude,
                 OverflowsBf16(bits) ? CodesFound::kRefused : 0});
    }
    return halves;
  }
};

// The least and the greatest OrderedKey of some numbers. Without numbers,
// values that any number replaces.
struct KeyRange {
  int32_t least = 0x7fffffff;
  int32_t greatest = -0x7fffffff - 1;

  CKPTDB_HOST_DEVICE void Add(const KeyRange& other) {
    least = other.least < least ? other.least : least;
    greatest = greatest < other.greatest ? other.greatest : greatest;
  }
};

// Encodes rows as int8: the codes padded to whole lanes with zeros, and the
// bounds in a separate array. The `parts` threads of a row determine its range
// together; then each computes every `parts`-th lane of 16 codes.
struct EncodeInt8Rows {
  // The maximum number of parts of a row, which are all in one warp.
  static constexpr uint32_t kMaxParts = 32;

  NumberRows from;
  Lane* codes = nullptr;
  uint64_t* bounds = nullptr;   // the bits of an Int8Bounds each
  uint64_t* digest = nullptr;   // the sum is added to it
  CodesFound* found = nullptr;  // the statistics are added to it

  CKPTDB_HOST_DEVICE uint32_t LanesOfRow() const {
    return LanesOf(from.Numbers());
  }
  // Returns the number of threads of a row: a power of 2, and none without a
  // lane.
  CKPTDB_HOST_DEVICE uint32_t Parts() const {
    uint32_t parts = 1;
    while (parts < kMaxParts && parts * 2 <= LanesOfRow()) parts *= 2;
    return parts;
  }

  // Returns the range of the numbers in one part of a row.
  template <uint32_t kAlignment>
  CKPTDB_HOST_DEVICE KeyRange RangeOf(uint64_t i, uint32_t part,
                                      uint32_t parts) const {
    const uint64_t row = from.RowOf(i);
    KeyRange range;
    for (uint32_t lane = part; lane < from.NumberLanes(); lane += parts) {
      const Lane numbers = ReadLane<kAlignment>(from.slot, row, lane);
      const uint32_t count = from.NumbersIn(lane);
#if defined(__CUDA_ARCH__)
#pragma unroll
#endif
      for (uint32_t n = 0; n < kLaneNumbers; ++n) {
        if (n >= count) continue;
        const int32_t key = OrderedKey(NumberOf(numbers, n));
        range.Add({key, key});
      }
    }
    return range;
  }

  // Computes the lanes of one part of a row; the first part also writes the
  // bounds. `range` is the whole row's. Returns the part's term of the digest.
  template <uint32_t kAlignment>
  CKPTDB_HOST_DEVICE uint64_t Run(uint64_t i, uint32_t part, uint32_t parts,
                                  const KeyRange& range,
                                  CodesFound* mine) const {
    const Int8Bounds row_bounds = Int8Bounds::Of(range.least, range.greatest);
    const bool verbatim = row_bounds.is_verbatim();
    if (verbatim) mine->refused = CodesFound::kRefused;
    const Int8Scale scale(verbatim ? Int8Bounds{0, 0} : row_bounds);
    const uint32_t lanes = LanesOfRow();
    const uint64_t row = from.RowOf(i);
    uint64_t mixed = 0;
    for (uint32_t lane = part; lane < lanes; lane += parts) {
      Lane value;
      if (!verbatim) value = Codes<kAlignment>(row, lane, scale, mine);
      const uint64_t at = i * lanes + lane;
      codes[at] = value;
      mixed += MixLane(at, value);
    }
    if (part != 0) return mixed;
    bounds[i] =
        static_cast<uint64_t>(row_bounds.greatest) << 32 | row_bounds.least;
    return mixed + MixBounds(i, bounds[i]);
  }

  // Returns the term of a row's bounds in the digest; bounds follow all codes.
  CKPTDB_HOST_DEVICE uint64_t MixBounds(uint64_t i, uint64_t bits) const {
    return MixLane(from.count * LanesOfRow() + i, {bits, 0});
  }

  // Returns a lane of codes; 0 beyond the row.
  template <uint32_t kAlignment>
  CKPTDB_HOST_DEVICE Lane Codes(uint64_t row, uint32_t lane,
                                const Int8Scale& scale,
                                CodesFound* mine) const {
    uint64_t halves[2] = {0, 0};
#if defined(__CUDA_ARCH__)
#pragma unroll
#endif
    for (uint32_t quarter = 0; quarter < kLaneNumbers; ++quarter) {
      const uint32_t from_lane = lane * kLaneNumbers + quarter;
      if (from_lane >= from.NumberLanes()) continue;
      const Lane numbers = ReadLane<kAlignment>(from.slot, row, from_lane);
      const uint64_t four =
          FourCodes(numbers, from.NumbersIn(from_lane), scale, mine);
      halves[quarter / 2] |= four << quarter % 2 * 32;
    }
    return {halves[0], halves[1]};
  }

  CKPTDB_HOST_DEVICE static uint64_t FourCodes(const Lane& numbers,
                                               uint32_t count,
                                               const Int8Scale& scale,
                                               CodesFound* mine) {
    uint64_t codes = 0;
#if defined(__CUDA_ARCH__)
#pragma unroll
#endif
    for (uint32_t n = 0; n < kLaneNumbers; ++n) {
      if (n >= count) continue;
      const float number = FloatOf(NumberOf(numbers, n));
      const uint8_t code = scale.Encode(number);
      codes |= static_cast<uint64_t>(code) << n * 8;
      mine->Add({MagnitudeOf(number - scale.Decode(code)), 0, 0});
    }
    return codes;
  }
};

}  // namespace ckptdb::internal

#endif  // CKPTDB_CUDA_ROWS_ROW_CODES_H_
