// SPDX-License-Identifier: Apache-2.0
// The arithmetic of the lossy codecs, for hosts and devices; internal to the
// library.
//
//   EncodeBf16(FloatBits(1.00390625f))   == 0x3f80   // a tie goes to even
//   const Int8Scale scale(Int8Bounds::Of(least, greatest));
//   const uint8_t code = scale.Encode(x);            // 0 to 255
//   const float y = scale.Decode(code);              // |x - y| <= bound()
//
// Hosts and devices return the same bits for every input, regardless of
// vectorization and of whether the compiler contracts a multiplication and an
// addition into one operation: each product that is added to something is
// exact, except in ErrorBound, which hosts compute without contraction. This
// requires IEEE arithmetic, so do not compile it with -ffast-math or, for a
// device, with --use_fast_math or --ftz=true. The kernels that use it are also
// compiled with --fmad=false, as a second safeguard. A host thread that flushes
// subnormal numbers, or rounds in another direction, must not do so here: see
// lossy.h.
#ifndef CKPTDB_SCHEMA_BYTES_QUANTIZE_H_
#define CKPTDB_SCHEMA_BYTES_QUANTIZE_H_

#include <stdint.h>  // NOLINT(modernize-deprecated-headers): for devices, too
#include <string.h>  // NOLINT(modernize-deprecated-headers)

#if defined(__FAST_MATH__)
#error "the lossy codecs need IEEE arithmetic: compile without -ffast-math."
#endif

#if defined(__CUDACC__)
#define CKPTDB_QUANTIZE __host__ __device__ __forceinline__
#else
#define CKPTDB_QUANTIZE inline
#endif

namespace ckptdb::internal {

CKPTDB_QUANTIZE uint32_t FloatBits(float number) {
  uint32_t bits = 0;
  memcpy(&bits, &number, sizeof(bits));
  return bits;
}
CKPTDB_QUANTIZE float FloatOf(uint32_t bits) {
  float number = 0;
  memcpy(&number, &bits, sizeof(number));
  return number;
}

// Parts of the bits of a float.
constexpr uint32_t kFloatMagnitude = 0x7fffffff;
constexpr uint32_t kFloatInfinity = 0x7f800000;

CKPTDB_QUANTIZE bool IsFiniteFloat(uint32_t bits) {
  return (bits & kFloatMagnitude) < kFloatInfinity;
}

// bf16 is the upper half of a float. Numbers are rounded to the nearest one,
// ties to even. Infinities and zeros keep their sign; a NaN keeps its sign and
// the upper bits of its payload, and becomes quiet.
CKPTDB_QUANTIZE uint16_t EncodeBf16(uint32_t bits) {
  const uint32_t odd = (bits >> 16) & 1;
  const uint32_t rounded = (bits + 0x7fff + odd) >> 16;
  const uint32_t quiet = (bits >> 16) | 0x40;
  const bool is_nan = (bits & kFloatMagnitude) > kFloatInfinity;
  return static_cast<uint16_t>(is_nan ? quiet : rounded);
}
// Returns the bits of the float, which is exact.
CKPTDB_QUANTIZE uint32_t DecodeBf16(uint16_t half) {
  return static_cast<uint32_t>(half) << 16;
}
// Returns whether a finite number is so large that it rounds to an infinity.
CKPTDB_QUANTIZE bool OverflowsBf16(uint32_t bits) {
  constexpr uint32_t kLeast = 0x7f7f8000;
  return (bits & kFloatMagnitude) - kLeast < kFloatInfinity - kLeast;
}
// Returns the error bound for finite numbers up to this magnitude: half the
// distance between two neighbors, which is constant for the smallest numbers.
CKPTDB_QUANTIZE double Bf16ErrorBound(double magnitude) {
  constexpr double kHalfOfLeast = 0x1p-134;
  return magnitude * 0x1p-8 + kHalfOfLeast;
}

// Returns an integer for the bits of a float, ordered as floats are: -NaN,
// -inf, ..., -0, 0, ..., inf, NaN.
CKPTDB_QUANTIZE int32_t OrderedKey(uint32_t bits) {
  const auto number = static_cast<int32_t>(bits);
  return number ^
         static_cast<int32_t>(static_cast<uint32_t>(number >> 31) >> 1);
}
CKPTDB_QUANTIZE uint32_t BitsOfKey(int32_t key) {
  return static_cast<uint32_t>(
      key ^ static_cast<int32_t>(static_cast<uint32_t>(key >> 31) >> 1));
}

// Precedes the int8 codes of a row: the bits of its least and its greatest
// number, neither of which is -0. A row with an infinity or a NaN is stored
// verbatim, and both bounds are kVerbatim.
struct Int8Bounds {
  static constexpr uint32_t kVerbatim = 0x7fc00000;

  uint32_t least;
  uint32_t greatest;

  // Returns the bounds for the least and the greatest OrderedKey of a row.
  CKPTDB_QUANTIZE static Int8Bounds Of(int32_t least_key,
                                       int32_t greatest_key) {
    constexpr uint32_t kMinusZero = 0x80000000;
    uint32_t least = BitsOfKey(least_key);
    uint32_t greatest = BitsOfKey(greatest_key);
    if (!IsFiniteFloat(least) || !IsFiniteFloat(greatest)) {
      return {kVerbatim, kVerbatim};
    }
    if (least == kMinusZero) least = 0;
    if (greatest == kMinusZero) greatest = 0;
    return {least, greatest};
  }

  CKPTDB_QUANTIZE bool is_verbatim() const {
    return least == kVerbatim && greatest == kVerbatim;
  }
  // Returns whether `Of` returns such bounds for a row that is not verbatim.
  CKPTDB_QUANTIZE bool is_valid() const {
    constexpr uint32_t kMinusZero = 0x80000000;
    return IsFiniteFloat(least) && IsFiniteFloat(greatest) &&
           least != kMinusZero && greatest != kMinusZero &&
           OrderedKey(least) <= OrderedKey(greatest);
  }
};

// The linear scale of a row that is not verbatim: code c represents bias + c *
// scale, where bias is the least number of the row and scale is (greatest -
// least) / 255; code 255 represents the greatest number. So both ends are
// exact, and encoding a decoded row again gives the same bounds.
//
// All arithmetic is in double, where the difference of two floats does not
// overflow and no number is subnormal. The scale has 44 bits, so that its
// product with a code is exact.
class Int8Scale {
 public:
  static constexpr int kGreatestCode = 255;

  CKPTDB_QUANTIZE explicit Int8Scale(Int8Bounds bounds)
      : greatest_(FloatOf(bounds.greatest)) {
    bias_ = static_cast<double>(FloatOf(bounds.least));
    const double range = static_cast<double>(greatest_) - bias_;
    scale_ = Truncate(range / kGreatestCode);
    start_ = bias_ - scale_ * 0.5;
    inverse_ = range > 0 ? kGreatestCode / range : 0;
  }

  // `number` must be from the row. The least one becomes 0, the greatest one
  // 255. The mask changes no code; without it GCC does not vectorize
  // Decode(Encode(number)).
  CKPTDB_QUANTIZE int32_t Encode(float number) const {
    return static_cast<int32_t>((static_cast<double>(number) - start_) *
                                inverse_) &
           kGreatestCode;
  }
  CKPTDB_QUANTIZE float Decode(int32_t code) const {
    const auto inner = static_cast<float>(bias_ + code * scale_);
    return code == kGreatestCode ? greatest_ : inner;
  }

  // Returns the error bound for the numbers of the row: half a step, half the
  // distance of two floats, and a margin for rounding.
  CKPTDB_QUANTIZE double ErrorBound() const {
    constexpr double kHalfOfLeast = 0x1p-150;
    const double low = bias_ < 0 ? -bias_ : bias_;
    const double high = greatest_ < 0 ? -greatest_ : greatest_;
    return scale_ * (0.5 + 0x1p-16) + (low > high ? low : high) * 0x1p-24 +
           kHalfOfLeast;
  }

 private:
  friend class Int8Scales;  // of several rows, in quantize_loops.cc

  Int8Scale() = default;

  // Drops the last 9 of 53 bits.
  CKPTDB_QUANTIZE static double Truncate(double number) {
    uint64_t bits = 0;
    memcpy(&bits, &number, sizeof(bits));
    bits &= ~static_cast<uint64_t>(0x1ff);
    memcpy(&number, &bits, sizeof(bits));
    return number;
  }

  float greatest_;
  double bias_;
  double scale_;
  double start_;    // of the numbers of code 0
  double inverse_;  // of the scale; 0 if all numbers are equal
};

}  // namespace ckptdb::internal

#endif  // CKPTDB_SCHEMA_BYTES_QUANTIZE_H_
