#include "ckptdb/schema/bytes/quantize_loops.h"

#include <cstring>
#include <limits>

namespace ckptdb::internal {
namespace {

constexpr uint32_t kFloatBytes = sizeof(float);

// The loops below are compiled once for any processor and once for those with
// AVX2 and FMA. They have no branches, so that the compiler makes vectors of
// them.
#define CKPTDB_LOOP inline __attribute__((always_inline))

// Numbers need not be aligned.
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
CKPTDB_LOOP int32_t SmallerOf(int32_t a, int32_t b) { return a < b ? a : b; }

// Encodes, and finds what it did to the numbers: the largest error and
// magnitude of finite ones, whether one would become an infinity, and whether
// all come back bit for bit.
CKPTDB_LOOP Findings EncodeBf16Loop(const char* __restrict raw,
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
    // The bits of floats that are not negative have the order of the floats, so
    // that integers are compared.
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

// Finds the least and the greatest number of a row by keys, integers in the
// order of the floats.
CKPTDB_LOOP Int8Bounds BoundsLoop(const char* row, uint64_t elements) {
  int32_t least = std::numeric_limits<int32_t>::max();
  int32_t greatest = std::numeric_limits<int32_t>::min();
  for (uint64_t i = 0; i < elements; ++i) {
    const int32_t key = OrderedKey(LoadBits(row, i));
    least = SmallerOf(least, key);
    greatest = LargerOf(greatest, key);
  }
  return Int8Bounds::Of(least, greatest);
}

CKPTDB_LOOP Findings EncodeInt8Row(const char* __restrict row,
                                   uint64_t elements, Int8Scale scale,
                                   char* __restrict codes) {
  int32_t error = 0;
  uint32_t changed = 0;
  for (uint64_t i = 0; i < elements; ++i) {
    const uint32_t bits = LoadBits(row, i);
    const float number = FloatOf(bits);
    const uint8_t code = scale.Encode(number);
    codes[i] = static_cast<char>(code);
    const float back = scale.Decode(code);
    error = LargerOf(error, static_cast<int32_t>(MagnitudeOf(number - back)));
    changed |= bits ^ FloatBits(back);
  }
  return {static_cast<uint32_t>(error), 0, false, changed == 0};
}

CKPTDB_LOOP void DecodeInt8Loop(const char* __restrict codes, uint64_t elements,
                                Int8Scale scale, char* __restrict row) {
  for (uint64_t i = 0; i < elements; ++i) {
    const auto code = static_cast<uint8_t>(codes[i]);
    StoreBits(FloatBits(scale.Decode(code)), row, i);
  }
}

// Short rows become vectors only where the compiler knows how long they are.
CKPTDB_LOOP Findings EncodeInt8Loop(const char* row, uint64_t elements,
                                    const Int8Scale& scale, char* codes) {
  switch (elements) {
    case 8:
      return EncodeInt8Row(row, 8, scale, codes);
    case 16:
      return EncodeInt8Row(row, 16, scale, codes);
    case 32:
      return EncodeInt8Row(row, 32, scale, codes);
    default:
      return EncodeInt8Row(row, elements, scale, codes);
  }
}

constexpr Loops kPlainLoops = {
    [](const char* raw, uint64_t elements, char* halves) {
      return EncodeBf16Loop(raw, elements, halves);
    },
    [](const char* halves, uint64_t elements, char* raw) {
      DecodeBf16Loop(halves, elements, raw);
    },
    [](const char* row, uint64_t elements) {
      return BoundsLoop(row, elements);
    },
    [](const char* row, uint64_t elements, const Int8Scale& scale,
       char* codes) { return EncodeInt8Loop(row, elements, scale, codes); },
    [](const char* codes, uint64_t elements, const Int8Scale& scale,
       char* row) { DecodeInt8Loop(codes, elements, scale, row); }};

#if defined(__x86_64__)
#define CKPTDB_AVX2 __attribute__((target("avx2,fma")))

CKPTDB_AVX2 Findings EncodeBf16Avx2(const char* raw, uint64_t elements,
                                    char* __restrict halves) {
  return EncodeBf16Loop(raw, elements, halves);
}
CKPTDB_AVX2 void DecodeBf16Avx2(const char* halves, uint64_t elements,
                                char* raw) {
  DecodeBf16Loop(halves, elements, raw);
}
CKPTDB_AVX2 Int8Bounds BoundsAvx2(const char* row, uint64_t elements) {
  return BoundsLoop(row, elements);
}
CKPTDB_AVX2 Findings EncodeInt8Avx2(const char* row, uint64_t elements,
                                    const Int8Scale& scale, char* codes) {
  return EncodeInt8Loop(row, elements, scale, codes);
}
CKPTDB_AVX2 void DecodeInt8Avx2(const char* codes, uint64_t elements,
                                const Int8Scale& scale, char* row) {
  DecodeInt8Loop(codes, elements, scale, row);
}

constexpr Loops kAvx2Loops = {EncodeBf16Avx2, DecodeBf16Avx2, BoundsAvx2,
                              EncodeInt8Avx2, DecodeInt8Avx2};
#endif

// Tests compare the loops of a processor with the plain ones. It is of a
// thread, so that other threads are not concerned.
thread_local bool plain_loops = false;

}  // namespace

void UsePlainLoops(bool plain) { plain_loops = plain; }

// Both loops give the same bytes, so that a store does not depend on the
// processor.
const Loops& TheLoops() {
#if defined(__x86_64__)
  static const bool kHasAvx2 =
      __builtin_cpu_supports("avx2") != 0 && __builtin_cpu_supports("fma") != 0;
  if (kHasAvx2 && !plain_loops) return kAvx2Loops;
#endif
  return kPlainLoops;
}

}  // namespace ckptdb::internal
