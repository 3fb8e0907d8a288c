// Rows of f32 that are put under a lossy codec as they are gathered, so that
// only their codes cross the bus; internal to cuda/. Each function is what one
// thread does; tests run them one after the other on the host.
//
// The mathematics is that of schema/bytes/quantize.h, which host tables go
// through as well, so that what is stored is the same bytes. It rounds nothing
// that is added afterwards; the kernels are compiled with --fmad=false
// --ftz=false besides.
//
// A slot that has a number that no code stands for is refused as a whole, and
// then leaves the device as it is: an infinity or a NaN under int8, whose row
// is stored verbatim, and a finite number that bf16 would round to an infinity,
// whose page is.
#ifndef CKPTDB_CUDA_ROWS_ROW_CODES_H_
#define CKPTDB_CUDA_ROWS_ROW_CODES_H_

#include <cstdint>

#include "cuda/rows/host_device.h"
#include "cuda/rows/row_lanes.h"
#include "schema/bytes/quantize.h"

namespace ckptdb::internal {

inline constexpr uint32_t kF32Bytes = sizeof(float);
inline constexpr uint32_t kLaneNumbers = kLaneBytes / kF32Bytes;

// What is found out about the numbers of a slot as they are encoded. Magnitudes
// are the bits of floats that are not negative, which are ordered as they are.
struct CodesFound {
  // All bits, so that one that changes on the way is no other answer.
  static constexpr uint32_t kRefused = ~uint32_t{0};

  uint32_t error = 0;      // the largest, of finite numbers
  uint32_t magnitude = 0;  // the largest of a finite number, under bf16
  uint32_t refused = 0;    // kRefused: some number has no code

  CKPTDB_HOST_DEVICE void Add(const CodesFound& other) {
    error = error < other.error ? other.error : error;
    magnitude = magnitude < other.magnitude ? other.magnitude : magnitude;
    refused |= other.refused;
  }
  // Adds what a thread has found to what all have.
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

// The rows of a slot that are encoded, and where their numbers are.
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
  // Returns how many numbers a lane of them has.
  CKPTDB_HOST_DEVICE uint32_t NumbersIn(uint32_t lane) const {
    return LaneBytesOf(slot.row_bytes, lane) / kF32Bytes;
  }
};

// Encodes rows as bf16, padded to whole lanes with zeros. A thread makes a lane
// of 8 codes.
struct EncodeBf16Rows {
  NumberRows from;
  Lane* batch = nullptr;
  uint64_t* digest = nullptr;   // is added to
  CodesFound* found = nullptr;  // is added to

  CKPTDB_HOST_DEVICE uint32_t LanesOfRow() const {
    return LanesOf(from.slot.row_bytes / 2);
  }
  CKPTDB_HOST_DEVICE uint64_t Lanes() const {
    return from.count * LanesOfRow();
  }

  // Makes lane `at` of the batch. Returns what it adds to the digest.
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

// The least and the greatest OrderedKey of some numbers; of none, those that
// any number replaces.
struct KeyRange {
  int32_t least = 0x7fffffff;
  int32_t greatest = -0x7fffffff - 1;

  CKPTDB_HOST_DEVICE void Add(const KeyRange& other) {
    least = other.least < least ? other.least : least;
    greatest = greatest < other.greatest ? other.greatest : greatest;
  }
};

// Encodes rows as int8: the codes padded to whole lanes with zeros, and bounds
// in an array of their own. The `parts` threads of a row find out its range
// together, and then each makes every so many lanes of 16 codes.
struct EncodeInt8Rows {
  // A row has at most so many parts, all of them in one warp.
  static constexpr uint32_t kMaxParts = 32;

  NumberRows from;
  Lane* codes = nullptr;
  uint64_t* bounds = nullptr;   // the bits of an Int8Bounds each
  uint64_t* digest = nullptr;   // is added to
  CodesFound* found = nullptr;  // is added to

  CKPTDB_HOST_DEVICE uint32_t LanesOfRow() const {
    return LanesOf(from.Numbers());
  }
  // Returns how many threads a row has: a power of 2, and none without a lane.
  CKPTDB_HOST_DEVICE uint32_t Parts() const {
    uint32_t parts = 1;
    while (parts < kMaxParts && parts * 2 <= LanesOfRow()) parts *= 2;
    return parts;
  }

  // Returns the range of the numbers of a row that are one part's.
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

  // Makes the lanes of a row that are one part's; the first part writes the
  // bounds. `range` is of the whole row. Returns what it adds to the digest.
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

  // Returns what the bounds of a row add to the digest: they come behind all
  // codes.
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
