// SPDX-License-Identifier: Apache-2.0
// Conversions of 8-bit and 16-bit floats; internal to the library.
//
//   DecodeSmallFloat(DType::kF16, 0x3c00)   == 1
//   EncodeFloat<kBf16Layout>(1)             == 0x3f80
//
// f8e4m3 is the variant without infinities, in which only 7f and ff are NaN;
// the others follow IEEE 754.
#ifndef CKPTDB_SCHEMA_BYTES_SMALL_FLOAT_H_
#define CKPTDB_SCHEMA_BYTES_SMALL_FLOAT_H_

#include <algorithm>
#include <bit>
#include <cstdint>
#include <limits>

#include "schema/types.h"

namespace ckptdb::internal {

struct FloatLayout {
  int exponent_bits;
  int mantissa_bits;
  bool infinities;  // the highest exponent only encodes infinities and NaNs

  // The exponent of the last mantissa bit of the smallest numbers.
  constexpr int lowest() const {
    return 2 - (1 << (exponent_bits - 1)) - mantissa_bits;
  }
  constexpr uint32_t mantissa_mask() const {
    return (uint32_t{1} << mantissa_bits) - 1;
  }
  constexpr uint32_t exponent_mask() const {
    return (uint32_t{1} << exponent_bits) - 1;
  }
  constexpr uint32_t sign() const {
    return uint32_t{1} << (exponent_bits + mantissa_bits);
  }
  // The bits for a number that is too large.
  constexpr uint32_t overflow() const {
    const uint32_t highest = exponent_mask() << mantissa_bits;
    return infinities ? highest : highest + mantissa_mask();
  }
};
inline constexpr FloatLayout kF16Layout = {5, 10, true};
inline constexpr FloatLayout kBf16Layout = {8, 7, true};
inline constexpr FloatLayout kF8E4M3Layout = {4, 3, false};
inline constexpr FloatLayout kF8E5M2Layout = {5, 2, true};

// Returns the exact value of the bits. A NaN keeps only its sign.
template <FloatLayout kLayout>
float DecodeFloat(uint16_t bits) {
  const uint32_t mantissa = bits & kLayout.mantissa_mask();
  const uint32_t exponent =
      (bits >> kLayout.mantissa_bits) & kLayout.exponent_mask();
  const uint32_t sign = (bits & kLayout.sign()) == 0 ? 0 : uint32_t{1} << 31;
  const uint32_t magnitude = bits & (kLayout.sign() - 1);
  constexpr int kLowest = 127 + kLayout.lowest();  // biased as an f32's
  // Builds the result from bits, without arithmetic, because a thread may flush
  // subnormal numbers to 0.
  uint32_t wide = 0;
  if (kLayout.infinities && magnitude == kLayout.overflow()) {
    wide = uint32_t{0xff} << 23;
  } else if (magnitude >= kLayout.overflow()) {
    wide = std::bit_cast<uint32_t>(std::numeric_limits<float>::quiet_NaN());
  } else if (kLayout.exponent_bits == 8) {
    wide = magnitude << 16;
  } else if (exponent != 0) {
    wide = ((exponent - 1 + kLowest + kLayout.mantissa_bits) << 23) |
           (mantissa << (23 - kLayout.mantissa_bits));
  } else if (mantissa != 0) {
    // Each of these numbers is a normal f32, whose leading bit is not stored.
    const int high = std::bit_width(mantissa) - 1;
    wide = (static_cast<uint32_t>(kLowest + high) << 23) |
           ((mantissa << (23 - high)) & ((uint32_t{1} << 23) - 1));
  }
  return std::bit_cast<float>(sign | wide);
}

// Rounds to the nearest number, ties to even. A number that is too large
// becomes an infinity, or a NaN if the format has no infinities.
template <FloatLayout kLayout>
uint16_t EncodeFloat(double number) {
  constexpr int kMantissaBits = 52;  // of a double
  constexpr uint64_t kOne = uint64_t{1} << kMantissaBits;
  const auto bits = std::bit_cast<uint64_t>(number);
  const uint32_t sign = (bits >> 63) == 0 ? 0 : kLayout.sign();
  const auto biased = static_cast<int>((bits >> kMantissaBits) & 0x7ff);
  const uint64_t mantissa = bits & (kOne - 1);
  uint32_t magnitude = kLayout.overflow();
  if (biased == 0x7ff && mantissa != 0) {
    magnitude = (kLayout.exponent_mask() << kLayout.mantissa_bits) |
                (kLayout.infinities ? (kLayout.mantissa_mask() + 1) / 2
                                    : kLayout.mantissa_mask());
  } else if (biased == 0) {
    magnitude = 0;  // far below half of the smallest
  } else if (biased != 0x7ff) {
    const int exponent = biased - 1023;
    // `last` is the exponent of the last bit that is kept.
    const int last =
        std::max(exponent - kLayout.mantissa_bits, kLayout.lowest());
    const int dropped = kMantissaBits - exponent + last;
    uint64_t kept = 0;
    if (dropped <= kMantissaBits + 1) {  // else it is below half of that bit
      const uint64_t significand = kOne | mantissa;
      const uint64_t half = uint64_t{1} << (dropped - 1);
      const uint64_t odd = (significand >> dropped) & 1;
      kept = (significand + half - 1 + odd) >> dropped;
    }
    // A carry out of the mantissa correctly increments the exponent.
    const uint64_t rounded = (static_cast<uint64_t>(last - kLayout.lowest())
                              << kLayout.mantissa_bits) +
                             kept;
    magnitude =
        static_cast<uint32_t>(std::min<uint64_t>(rounded, kLayout.overflow()));
  }
  return static_cast<uint16_t>(sign | magnitude);
}

// `dtype` is kF16, kBf16, kF8E4M3 or kF8E5M2.
inline float DecodeSmallFloat(DType dtype, uint16_t bits) {
  switch (dtype) {
    case DType::kF16:
      return DecodeFloat<kF16Layout>(bits);
    case DType::kBf16:
      return DecodeFloat<kBf16Layout>(bits);
    case DType::kF8E4M3:
      return DecodeFloat<kF8E4M3Layout>(bits);
    default:
      return DecodeFloat<kF8E5M2Layout>(bits);
  }
}

}  // namespace ckptdb::internal

#endif  // CKPTDB_SCHEMA_BYTES_SMALL_FLOAT_H_
