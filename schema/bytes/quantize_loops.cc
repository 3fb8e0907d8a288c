// SPDX-License-Identifier: Apache-2.0
#include "schema/bytes/quantize_loops.h"

#include <algorithm>
#include <cstring>

namespace ckptdb::internal {

namespace {

constexpr uint32_t kFloatBytes = sizeof(float);

// The loops below are compiled once for any processor and once for those with
// AVX2, both without FMA, because the error bound adds an inexact product. They
// have no branches, so that the compiler vectorizes them.
#define CKPTDB_LOOP inline __attribute__((always_inline))

}  // namespace

// The scales of a group of rows. Several rows form a vector.
class Int8Scales {
 public:
  CKPTDB_LOOP void Set(uint64_t row, const Int8Scale& scale) {
    greatest_[row] = scale.greatest_;
    bias_[row] = scale.bias_;
    scale_[row] = scale.scale_;
    start_[row] = scale.start_;
    inverse_[row] = scale.inverse_;
  }
  CKPTDB_LOOP Int8Scale At(uint64_t row) const {
    Int8Scale scale;
    scale.greatest_ = greatest_[row];
    scale.bias_ = bias_[row];
    scale.scale_ = scale_[row];
    scale.start_ = start_[row];
    scale.inverse_ = inverse_[row];
    return scale;
  }

 private:
  float greatest_[kInt8GroupRows];
  double bias_[kInt8GroupRows];
  double scale_[kInt8GroupRows];
  double start_[kInt8GroupRows];
  double inverse_[kInt8GroupRows];
};

namespace {

// Numbers may be unaligned.
CKPTDB_LOOP uint32_t LoadBits(const char* numbers, uint64_t i) {
  uint32_t bits = 0;
  std::memcpy(&bits, numbers + i * kFloatBytes, sizeof(bits));
  return bits;
}
CKPTDB_LOOP void StoreBits(uint32_t bits, char* numbers, uint64_t i) {
  std::memcpy(numbers + i * kFloatBytes, &bits, sizeof(bits));
}
CKPTDB_LOOP uint32_t MagnitudeOf(float number) {
  return FloatBits(number) & kFloatMagnitude;
}

CKPTDB_LOOP int32_t LargerOf(int32_t a, int32_t b) { return a < b ? b : a; }

// Encodes, and collects statistics: the largest error and magnitude of finite
// numbers, whether one would become an infinity, and whether decoding restores
// all bits.
CKPTDB_LOOP Bf16Stats EncodeBf16Loop(const char* __restrict raw,
                                     uint64_t elements,
                                     char* __restrict halves) {
  int32_t error = 0;
  int32_t magnitude = 0;
  uint32_t overflow = 0;
  uint32_t changed = 0;
  for (uint64_t i = 0; i < elements; ++i) {
    const uint32_t bits = LoadBits(raw, i);
    const uint16_t half = EncodeBf16(bits);
    std::memcpy(halves + i * sizeof(half), &half, sizeof(half));
    const uint32_t back = DecodeBf16(half);
    const uint32_t finite = IsFiniteFloat(bits) ? ~uint32_t{0} : 0;
    const uint32_t difference = MagnitudeOf(FloatOf(bits) - FloatOf(back));
    // The bits of nonnegative floats sort like the floats, so this compares
    // integers.
    error = LargerOf(error, static_cast<int32_t>(difference & finite));
    magnitude = LargerOf(magnitude,
                         static_cast<int32_t>(bits & kFloatMagnitude & finite));
    overflow |= OverflowsBf16(bits) ? 1 : 0;
    changed |= bits ^ back;
  }
  return {static_cast<uint32_t>(error), static_cast<uint32_t>(magnitude),
          overflow != 0, changed == 0};
}

CKPTDB_LOOP void DecodeBf16Loop(const char* halves, uint64_t elements,
                                char* raw) {
  for (uint64_t i = 0; i < elements; ++i) {
    uint16_t half = 0;
    std::memcpy(&half, halves + i * sizeof(half), sizeof(half));
    StoreBits(DecodeBf16(half), raw, i);
  }
}

// The loops over int8 rows process kBlock numbers of a row at a time, as a
// vector. The last block of a row begins early enough to be whole: numbers in
// two blocks are coded twice, with the same result.
CKPTDB_LOOP uint64_t BlockAt(uint64_t at, uint64_t block, uint64_t elements) {
  return at < elements - block ? at : elements - block;
}

// Finds the largest of the kLanes keys of each row.
template <uint64_t kLanes>
CKPTDB_LOOP void LargestOfLanes(const int32_t* keys, uint64_t rows,
                                int32_t* largest) {
  if constexpr (kLanes == 1) {
    for (uint64_t row = 0; row < rows; ++row) largest[row] = keys[row];
  } else {
    int32_t half[kInt8GroupRows * kLanes / 2];
    for (uint64_t i = 0; i < rows * kLanes / 2; ++i) {
      half[i] = LargerOf(keys[2 * i], keys[2 * i + 1]);
    }
    LargestOfLanes<kLanes / 2>(half, rows, largest);
  }
}

// Finds the least and the greatest number of each row by keys, integers that
// sort like the floats. The least key has the largest complement.
template <uint64_t kBlock>
CKPTDB_LOOP void BoundsLoop(const char* numbers, uint64_t elements,
                            uint64_t rows, Int8Bounds* bounds) {
  int32_t keys[kInt8GroupRows * kBlock];
  int32_t complements[kInt8GroupRows * kBlock];
  for (uint64_t row = 0; row < rows; ++row) {
    const char* const from = numbers + row * elements * kFloatBytes;
    int32_t* const greatest = keys + row * kBlock;
    int32_t* const least = complements + row * kBlock;
    for (uint64_t i = 0; i < kBlock; ++i) {
      const int32_t key = OrderedKey(LoadBits(from, i));
      greatest[i] = key;
      least[i] = ~key;
    }
    for (uint64_t at = kBlock; at < elements; at += kBlock) {
      const uint64_t block = BlockAt(at, kBlock, elements);
      for (uint64_t i = 0; i < kBlock; ++i) {
        const int32_t key = OrderedKey(LoadBits(from, block + i));
        greatest[i] = LargerOf(greatest[i], key);
        least[i] = LargerOf(least[i], ~key);
      }
    }
  }
  int32_t greatest[kInt8GroupRows];
  int32_t least[kInt8GroupRows];
  LargestOfLanes<kBlock>(keys, rows, greatest);
  LargestOfLanes<kBlock>(complements, rows, least);
  for (uint64_t row = 0; row < rows; ++row) {
    bounds[row] = Int8Bounds::Of(~least[row], greatest[row]);
  }
}

// The statistics of each lane of a group's blocks.
template <uint64_t kBlock>
struct Int8Lanes {
  int32_t error[kBlock] = {};
  uint32_t changed[kBlock] = {};  // nonzero if bits are lost

  CKPTDB_LOOP void AddTo(Int8Stats* found) const {
    int32_t largest = 0;
    uint32_t any = 0;
    for (uint64_t i = 0; i < kBlock; ++i) {
      largest = LargerOf(largest, error[i]);
      any |= changed[i];
    }
    found->error = static_cast<uint32_t>(largest);
    found->exact = any == 0;
  }
};

// Encodes rows of at most kInt8GroupNumbers in total. Codes are narrowed to
// bytes at the end, because a block of 8 floats is a vector and one of 8 bytes
// is not.
template <uint64_t kBlock>
CKPTDB_LOOP void EncodeRows(const char* __restrict numbers, uint64_t elements,
                            uint64_t rows, const Int8Scales& scales,
                            char* __restrict codes, Int8Lanes<kBlock>* lanes) {
  int32_t wide[kInt8GroupNumbers];
  for (uint64_t row = 0; row < rows; ++row) {
    const Int8Scale scale = scales.At(row);
    const char* const from = numbers + row * elements * kFloatBytes;
    int32_t* const to = wide + row * elements;
    for (uint64_t at = 0; at < elements; at += kBlock) {
      const uint64_t block = BlockAt(at, kBlock, elements);
      for (uint64_t i = 0; i < kBlock; ++i) {
        const uint32_t bits = LoadBits(from, block + i);
        const float number = FloatOf(bits);
        const int32_t code = scale.Encode(number);
        to[block + i] = code;
        const float back = scale.Decode(code);
        lanes->error[i] = LargerOf(
            lanes->error[i], static_cast<int32_t>(MagnitudeOf(number - back)));
        lanes->changed[i] |= bits ^ FloatBits(back);
      }
    }
  }
  for (uint64_t i = 0; i < rows * elements; ++i) {
    codes[i] = static_cast<char>(wide[i]);
  }
}

template <uint64_t kBlock>
CKPTDB_LOOP void DecodeRows(const char* __restrict codes, uint64_t elements,
                            uint64_t rows, const Int8Scales& scales,
                            char* __restrict numbers) {
  int32_t wide[kInt8GroupNumbers];
  for (uint64_t i = 0; i < rows * elements; ++i) {
    wide[i] = static_cast<uint8_t>(codes[i]);
  }
  for (uint64_t row = 0; row < rows; ++row) {
    const Int8Scale scale = scales.At(row);
    const int32_t* const from = wide + row * elements;
    char* const to = numbers + row * elements * kFloatBytes;
    for (uint64_t at = 0; at < elements; at += kBlock) {
      const uint64_t block = BlockAt(at, kBlock, elements);
      for (uint64_t i = 0; i < kBlock; ++i) {
        StoreBits(FloatBits(scale.Decode(from[block + i])), to, block + i);
      }
    }
  }
}

// A row longer than a group is processed in parts; the last part begins early
// enough to be whole.
template <uint64_t kBoundsBlock, uint64_t kBlock>
CKPTDB_LOOP void EncodeInt8Blocks(const char* numbers, uint64_t elements,
                                  uint64_t rows, char* codes,
                                  Int8Stats* found) {
  BoundsLoop<kBoundsBlock>(numbers, elements, rows, found->bounds);
  uint32_t verbatim = 0;
  for (uint64_t row = 0; row < rows; ++row) {
    verbatim |= found->bounds[row].is_verbatim() ? 1 : 0;
  }
  found->verbatim = verbatim != 0;
  if (found->verbatim) return;
  Int8Scales scales;
  double error_bounds[kInt8GroupRows];
  for (uint64_t row = 0; row < rows; ++row) {
    const Int8Scale scale(found->bounds[row]);
    scales.Set(row, scale);
    error_bounds[row] = scale.ErrorBound();
  }
  found->error_bound = 0;
  for (uint64_t row = 0; row < rows; ++row) {
    found->error_bound = std::max(found->error_bound, error_bounds[row]);
  }
  Int8Lanes<kBlock> lanes;
  const uint64_t part = std::min(elements, kInt8GroupNumbers);
  for (uint64_t at = 0; at < elements; at += part) {
    const uint64_t from = BlockAt(at, part, elements);
    EncodeRows<kBlock>(numbers + from * kFloatBytes, part, rows, scales,
                       codes + from, &lanes);
  }
  lanes.AddTo(found);
}

template <uint64_t kBlock>
CKPTDB_LOOP bool DecodeInt8Blocks(const char* codes, uint64_t elements,
                                  uint64_t rows, const Int8Bounds* bounds,
                                  char* numbers) {
  Int8Scales scales;
  uint32_t invalid = 0;
  for (uint64_t row = 0; row < rows; ++row) {
    scales.Set(row, Int8Scale(bounds[row]));
    invalid |= bounds[row].is_valid() ? 0 : 1;
  }
  const uint64_t part = std::min(elements, kInt8GroupNumbers);
  for (uint64_t at = 0; at < elements; at += part) {
    const uint64_t from = BlockAt(at, part, elements);
    DecodeRows<kBlock>(codes + from, part, rows, scales,
                       numbers + from * kFloatBytes);
  }
  return invalid == 0;
}

// Bounds of rows with fewer than 16 numbers are found in 4 lanes, because
// reducing 8 lanes takes long. Rows of 8 are faster if the compiler knows that
// they have one block.
CKPTDB_LOOP void EncodeInt8Loop(const char* numbers, uint64_t elements,
                                uint64_t rows, char* codes, Int8Stats* found) {
  if (elements >= 16) {
    EncodeInt8Blocks<8, 8>(numbers, elements, rows, codes, found);
  } else if (elements == 8) {
    EncodeInt8Blocks<4, 8>(numbers, 8, rows, codes, found);
  } else if (elements > 8) {
    EncodeInt8Blocks<4, 8>(numbers, elements, rows, codes, found);
  } else if (elements >= 4) {
    EncodeInt8Blocks<4, 4>(numbers, elements, rows, codes, found);
  } else {
    EncodeInt8Blocks<1, 1>(numbers, elements, rows, codes, found);
  }
}
CKPTDB_LOOP bool DecodeInt8Loop(const char* codes, uint64_t elements,
                                uint64_t rows, const Int8Bounds* bounds,
                                char* numbers) {
  if (elements >= 8) {
    return DecodeInt8Blocks<8>(codes, elements, rows, bounds, numbers);
  }
  if (elements >= 4) {
    return DecodeInt8Blocks<4>(codes, elements, rows, bounds, numbers);
  }
  return DecodeInt8Blocks<1>(codes, elements, rows, bounds, numbers);
}

constexpr Loops kPlainLoops = {
    [](const char* raw, uint64_t elements, char* halves) {
      return EncodeBf16Loop(raw, elements, halves);
    },
    [](const char* halves, uint64_t elements, char* raw) {
      DecodeBf16Loop(halves, elements, raw);
    },
    [](const char* numbers, uint64_t elements, uint64_t rows, char* codes,
       Int8Stats* found) {
      EncodeInt8Loop(numbers, elements, rows, codes, found);
    },
    [](const char* codes, uint64_t elements, uint64_t rows,
       const Int8Bounds* bounds, char* numbers) {
      return DecodeInt8Loop(codes, elements, rows, bounds, numbers);
    }};

#if defined(__x86_64__)
#define CKPTDB_AVX2 __attribute__((target("avx2")))

CKPTDB_AVX2 Bf16Stats EncodeBf16Avx2(const char* raw, uint64_t elements,
                                     char* __restrict halves) {
  return EncodeBf16Loop(raw, elements, halves);
}
CKPTDB_AVX2 void DecodeBf16Avx2(const char* halves, uint64_t elements,
                                char* raw) {
  DecodeBf16Loop(halves, elements, raw);
}
CKPTDB_AVX2 void EncodeInt8Avx2(const char* numbers, uint64_t elements,
                                uint64_t rows, char* codes, Int8Stats* found) {
  EncodeInt8Loop(numbers, elements, rows, codes, found);
}
CKPTDB_AVX2 bool DecodeInt8Avx2(const char* codes, uint64_t elements,
                                uint64_t rows, const Int8Bounds* bounds,
                                char* numbers) {
  return DecodeInt8Loop(codes, elements, rows, bounds, numbers);
}

constexpr Loops kAvx2Loops = {EncodeBf16Avx2, DecodeBf16Avx2, EncodeInt8Avx2,
                              DecodeInt8Avx2};
#endif

// Lets tests compare the loops of a processor with the plain ones.
// Thread-local, so that other threads are unaffected.
thread_local bool plain_loops = false;

}  // namespace

void UsePlainLoops(bool plain) { plain_loops = plain; }

// All loops give the same bytes, so that a store does not depend on the
// processor.
const Loops& LoopsForThisCpu() {
#if defined(__x86_64__)
  static const bool kHasAvx2 = __builtin_cpu_supports("avx2") != 0;
  if (kHasAvx2 && !plain_loops) return kAvx2Loops;
#endif
  return kPlainLoops;
}

}  // namespace ckptdb::internal
