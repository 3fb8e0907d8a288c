// SPDX-License-Identifier: Apache-2.0
#include "schema/types.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>

#include "schema/bytes/small_float.h"
#include "tests/support/seed.h"
#include "tests/support/test.h"

namespace ckptdb::testing {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

bool IsFloatDType(uint8_t dtype) { return dtype < 6; }

// std::vector<bool> has no array of elements.
template <typename To, typename From>
std::vector<To> Cast(DType from, const std::vector<From>& in, DType to) {
  EXPECT_EQ(sizeof(From), DTypeBytes(from));
  EXPECT_EQ(sizeof(To), DTypeBytes(to));
  std::vector<To> out(in.size());
  EXPECT_OK(CastElements(from, in.data(), to, out.data(), in.size()));
  return out;
}

template <typename To, typename From>
absl::Status CastOneOf(DType from, From in, DType to, To expected) {
  To out = 0;
  const absl::Status status = CastElements(from, &in, to, &out, 1);
  if (status.ok()) {
    EXPECT_EQ(out, expected) << in << " to " << DTypeName(to);
  }
  return status;
}

// Returns the bits of a number as a float of 8 or 16 bits.
uint16_t BitsOf(double number, DType to) {
  if (DTypeBytes(to) == 2)
    return Cast<uint16_t>(DType::kF64, std::vector{number}, to)[0];
  return Cast<uint8_t>(DType::kF64, std::vector{number}, to)[0];
}

// The same of any element.
uint16_t BitsOf(DType from, const void* element, DType to) {
  uint16_t bits = 0;
  EXPECT_OK(CastElements(from, element, to, &bits, 1));
  return bits;
}

double Decode(DType dtype, uint32_t bits) {
  return internal::DecodeSmallFloat(dtype, static_cast<uint16_t>(bits));
}

constexpr DType kSmall[] = {DType::kF16, DType::kBf16, DType::kF8E4M3,
                            DType::kF8E5M2};

// The reference for rounding: all numbers of a dtype from 0 on. f8e4m3 ends at
// 448, and its bits after that are NaN.
class Numbers {
 public:
  explicit Numbers(DType dtype) {
    for (uint32_t bits = 0;; ++bits) {
      const double number = Decode(dtype, bits);
      if (!std::isfinite(number)) break;
      all_.push_back(number);
    }
  }
  const std::vector<double>& all() const { return all_; }
  // Returns the number that would follow the last.
  double beyond() const {
    return all_.back() + (all_.back() - all_[all_.size() - 2]);
  }
  // Returns the bits of the nearest number, for numbers from 0 on; size()
  // stands for numbers above all.
  uint16_t Nearest(double number) const {
    const auto above = std::upper_bound(all_.begin(), all_.end(), number);
    const auto high = static_cast<size_t>(above - all_.begin());
    if (number >= beyond()) return static_cast<uint16_t>(all_.size());
    const double next = high == all_.size() ? beyond() : *above;
    // Exact: a double has more bits than any number here.
    const double middle = (all_[high - 1] + next) / 2;
    const bool up =
        number > middle || (number == middle && (high - 1) % 2 == 1);
    return static_cast<uint16_t>(up ? high : high - 1);
  }

 private:
  std::vector<double> all_;
};

TEST(CanCast, RejectsFloatsToIntegers) {
  for (uint8_t from = 0; from < kDTypes; ++from) {
    for (uint8_t to = 0; to < kDTypes; ++to) {
      const bool can = !IsFloatDType(from) || IsFloatDType(to);
      const auto source = static_cast<DType>(from);
      const auto target = static_cast<DType>(to);
      EXPECT_EQ(CanCast(source, target), can)
          << DTypeName(source) << " " << DTypeName(target);
      const std::vector<char> in(8, 1);
      std::vector<char> out(8, 0);
      const absl::Status status =
          CastElements(source, in.data(), target, out.data(), 1);
      if (!can) {
        EXPECT_THAT(status, InvalidArgument(DTypeName(source)));
      } else if (IsFloatDType(to)) {
        EXPECT_OK(status);
      }
    }
  }
}

// Casts all bits of all small floats to each wider dtype and back.
TEST(CastElements, SmallFloatsRoundTripThroughWiderOnes) {
  for (const DType dtype : kSmall) {
    const uint32_t all = DTypeBytes(dtype) == 2 ? 0x10000 : 0x100;
    for (uint32_t bits = 0; bits < all; ++bits) {
      const double number = Decode(dtype, bits);
      double f64 = 0;
      float f32 = 0;
      ASSERT_OK(CastElements(dtype, &bits, DType::kF64, &f64, 1));
      ASSERT_OK(CastElements(dtype, &bits, DType::kF32, &f32, 1));
      const uint16_t from64 = BitsOf(DType::kF64, &f64, dtype);
      ASSERT_EQ(from64, BitsOf(DType::kF32, &f32, dtype)) << bits;
      ASSERT_EQ(std::signbit(f64), std::signbit(number)) << bits;
      ASSERT_EQ(std::signbit(f32), std::signbit(number)) << bits;
      if (std::isnan(number)) {
        ASSERT_TRUE(std::isnan(f64) && std::isnan(f32)) << bits;
        ASSERT_TRUE(std::isnan(Decode(dtype, from64))) << bits;
        ASSERT_EQ(std::signbit(Decode(dtype, from64)), std::signbit(number));
      } else {
        ASSERT_EQ(f64, number) << bits;
        ASSERT_EQ(static_cast<double>(f32), number) << bits;
        ASSERT_EQ(from64, bits) << DTypeName(dtype);
      }
    }
  }
}

// Casts each number, each number halfway to the next, and their neighbours.
TEST(CastElements, RoundsToTheNearestAndTiesToEven) {
  for (const DType dtype : kSmall) {
    const Numbers numbers(dtype);
    const std::vector<double>& all = numbers.all();
    const int sign = 1 << (DTypeBytes(dtype) * 8 - 1);
    for (size_t i = 0; i < all.size(); ++i) {
      const double next = i + 1 < all.size() ? all[i + 1] : numbers.beyond();
      const double middle = (all[i] + next) / 2;
      for (const double number :
           {all[i], std::nextafter(all[i], kInf), std::nextafter(middle, 0),
            middle, std::nextafter(middle, kInf), std::nextafter(next, 0)}) {
        const uint16_t expected = numbers.Nearest(number);
        ASSERT_EQ(BitsOf(number, dtype), expected)
            << number << " to " << DTypeName(dtype);
        ASSERT_EQ(BitsOf(-number, dtype), expected | sign);
        // An f32 is rounded to its own nearest number; an f64 was rounded once,
        // and not through f32.
        const auto f32 = static_cast<float>(number);
        ASSERT_EQ(BitsOf(f32, dtype), numbers.Nearest(f32));
      }
    }
  }
}

TEST(CastElements, RoundsAnyNumber) {
  std::mt19937_64 random(TestSeed());
  for (const DType dtype : kSmall) {
    const Numbers numbers(dtype);
    const double least = std::ilogb(numbers.all()[1]) - 3;
    const double most = std::ilogb(numbers.all().back()) + 3;
    std::uniform_real_distribution<double> exponents(least, most);
    for (int i = 0; i < 20'000; ++i) {
      const double number = std::exp2(exponents(random));
      ASSERT_EQ(BitsOf(number, dtype), numbers.Nearest(number)) << number;
      const auto f32 = static_cast<float>(number);
      ASSERT_EQ(BitsOf(DType::kF32, &f32, dtype), numbers.Nearest(f32)) << f32;
    }
  }
}

TEST(CastElements, BetweenSmallFloats) {
  for (const DType from : kSmall) {
    const Numbers there(from);
    for (const DType to : kSmall) {
      if (from == to) continue;
      const Numbers numbers(to);
      for (size_t bits = 0; bits < there.all().size(); ++bits) {
        ASSERT_EQ(BitsOf(from, &bits, to), numbers.Nearest(there.all()[bits]))
            << DTypeName(from) << " to " << DTypeName(to) << " " << bits;
      }
    }
  }
}

TEST(CastElements, OverflowBecomesInfinityOrNan) {
  for (const double number : {kInf, 1e300}) {
    EXPECT_EQ(BitsOf(number, DType::kF16), 0x7c00);
    EXPECT_EQ(BitsOf(-number, DType::kF16), 0xfc00);
    EXPECT_EQ(BitsOf(number, DType::kBf16), 0x7f80);
    EXPECT_EQ(BitsOf(number, DType::kF8E5M2), 0x7c);
    EXPECT_EQ(BitsOf(number, DType::kF8E4M3), 0x7f) << "NaN";
    EXPECT_EQ(BitsOf(-number, DType::kF8E4M3), 0xff) << "NaN";
    EXPECT_EQ(Cast<float>(DType::kF64, std::vector{number}, DType::kF32)[0],
              std::numeric_limits<float>::infinity());
  }
  EXPECT_EQ(BitsOf(65519.99, DType::kF16), 0x7bff);
  EXPECT_EQ(BitsOf(65520, DType::kF16), 0x7c00);
  EXPECT_EQ(BitsOf(464, DType::kF8E4M3), 0x7e) << "448 is even";
  EXPECT_EQ(BitsOf(std::nextafter(464, kInf), DType::kF8E4M3), 0x7f);
}

TEST(CastElements, NanStaysNan) {
  EXPECT_EQ(BitsOf(kNan, DType::kF16), 0x7e00);
  EXPECT_EQ(BitsOf(std::copysign(kNan, -1), DType::kF16), 0xfe00);
  EXPECT_EQ(BitsOf(kNan, DType::kBf16), 0x7fc0);
  EXPECT_EQ(BitsOf(kNan, DType::kF8E4M3), 0x7f);
  EXPECT_EQ(BitsOf(kNan, DType::kF8E5M2), 0x7e);
  // A NaN whose highest mantissa bits are 0.
  const auto low = std::bit_cast<double>(uint64_t{0x7ff0000000000001});
  EXPECT_EQ(BitsOf(low, DType::kBf16), 0x7fc0);
  EXPECT_TRUE(
      std::isnan(Cast<float>(DType::kF64, std::vector{kNan}, DType::kF32)[0]));
}

TEST(CastElements, SubnormalNumbers) {
  const float least = std::numeric_limits<float>::denorm_min();
  EXPECT_EQ(Cast<double>(DType::kF32, std::vector{least}, DType::kF64)[0],
            std::ldexp(1, -149));
  EXPECT_EQ(Cast<float>(DType::kF64, std::vector{std::ldexp(3, -150)},
                        DType::kF32)[0],
            2 * least)
      << "ties to even";
  EXPECT_EQ(BitsOf(std::numeric_limits<double>::denorm_min(), DType::kBf16), 0);
  EXPECT_EQ(BitsOf(std::ldexp(1, -134), DType::kBf16), 0) << "ties to even";
  EXPECT_EQ(BitsOf(std::ldexp(3, -134), DType::kBf16), 2) << "ties to even";
  EXPECT_EQ(BitsOf(std::ldexp(-1, -24), DType::kF16), 0x8001);
  EXPECT_EQ(BitsOf(std::ldexp(-1, -25), DType::kF16), 0x8000) << "-0";
}

// Casts each integer dtype's least and greatest numbers to each other one.
TEST(CastElements, IntegersAtTheirLimits) {
  constexpr auto kLeast = std::numeric_limits<int64_t>::min();
  constexpr auto kMost = std::numeric_limits<uint64_t>::max();
  struct Bound {
    DType dtype;
    int64_t least;
    uint64_t most;
  };
  const std::vector<Bound> bounds = {
      {DType::kI64, kLeast, kMost / 2},
      {DType::kI32, -(int64_t{1} << 31), (uint64_t{1} << 31) - 1},
      {DType::kI16, -32768, 32767},
      {DType::kI8, -128, 127},
      {DType::kU64, 0, kMost},
      {DType::kU32, 0, (uint64_t{1} << 32) - 1},
      {DType::kU16, 0, 65535},
      {DType::kU8, 0, 255},
      {DType::kBool, 0, 1}};
  for (const Bound& to : bounds) {
    for (const Bound& from : bounds) {
      SCOPED_TRACE(DTypeName(from.dtype));
      SCOPED_TRACE(DTypeName(to.dtype));
      // The bounds of both dtypes, and the neighbours of those of `to`, as 64
      // bits.
      for (const uint64_t number :
           {static_cast<uint64_t>(to.least), to.most, to.most + 1,
            static_cast<uint64_t>(to.least) - 1,
            static_cast<uint64_t>(from.least), from.most, uint64_t{0}}) {
        // The element of `from` with these low bits.
        const uint32_t bits = DTypeBytes(from.dtype) * 8;
        const uint64_t kept = from.dtype == DType::kBool ? number & 1
                              : bits == 64
                                  ? number
                                  : number & ((uint64_t{1} << bits) - 1);
        const bool negative = from.least < 0 && ((kept >> (bits - 1)) & 1) != 0;
        const uint64_t value =
            negative && bits < 64 ? kept | (kMost << bits) : kept;
        const bool fits = negative ? static_cast<int64_t>(value) >= to.least
                                   : value <= to.most;
        uint64_t out = 0;
        const absl::Status status =
            CastElements(from.dtype, &kept, to.dtype, &out, 1);
        if (!fits && from.dtype != to.dtype) {
          const std::string name =
              negative ? std::to_string(static_cast<int64_t>(value))
                       : std::to_string(value);
          EXPECT_THAT(status, OutOfRange("element 0: " + name + " of " +
                                         std::string(DTypeName(from.dtype)) +
                                         " is out of range for " +
                                         std::string(DTypeName(to.dtype)) +
                                         ", " + std::to_string(to.least) +
                                         " to " + std::to_string(to.most)));
          continue;
        }
        EXPECT_OK(status);
        const uint32_t wide = DTypeBytes(to.dtype) * 8;
        EXPECT_EQ(out,
                  wide == 64 ? value : value & ((uint64_t{1} << wide) - 1));
      }
    }
  }
}

TEST(CastElements, NamesTheFirstElementOutOfRange) {
  const std::vector<int32_t> in = {1, 2, -3, 400};
  std::vector<uint8_t> out(4, 9);
  EXPECT_THAT(CastElements(DType::kI32, in.data(), DType::kU8, out.data(), 4),
              StatusIs(absl::StatusCode::kOutOfRange,
                       "element 2: -3 of i32 is out of range for u8, 0 to "
                       "255"));
  EXPECT_THAT(out, ElementsAre(1, 2, 9, 9));
}

TEST(CastElements, BoolIsZeroOrOne) {
  const std::vector<uint8_t> stored = {0, 1, 2};
  EXPECT_THAT(Cast<int64_t>(DType::kBool, stored, DType::kI64),
              ElementsAre(0, 1, 1));
  EXPECT_THAT(Cast<float>(DType::kBool, stored, DType::kF32),
              ElementsAre(0, 1, 1));
  EXPECT_THAT(
      Cast<uint8_t>(DType::kI16, std::vector<int16_t>{0, 1}, DType::kBool),
      ElementsAre(0, 1));
  EXPECT_THAT(CastOneOf<uint8_t>(DType::kI8, int8_t{-1}, DType::kBool, 0),
              OutOfRange("-1 of i8 is out of range for bool, 0 to 1"));
}

TEST(CastElements, IntegersToFloats) {
  EXPECT_OK(CastOneOf(DType::kI64, (int64_t{1} << 53) + 1, DType::kF64,
                      std::ldexp(1, 53)));
  EXPECT_OK(CastOneOf(DType::kU64, std::numeric_limits<uint64_t>::max(),
                      DType::kF32, std::ldexp(1.0F, 64)));
  EXPECT_OK(CastOneOf(DType::kI64, std::numeric_limits<int64_t>::min(),
                      DType::kF32, -std::ldexp(1.0F, 63)));
  EXPECT_OK(CastOneOf<uint16_t>(DType::kI32, -2, DType::kF16, 0xc000));
  EXPECT_OK(CastOneOf<uint16_t>(DType::kI32, 70000, DType::kF16, 0x7c00));
  EXPECT_OK(
      CastOneOf<uint8_t>(DType::kU16, uint16_t{1000}, DType::kF8E4M3, 0x7f));
  EXPECT_OK(CastOneOf<uint8_t>(DType::kU8, uint8_t{255}, DType::kF8E4M3, 0x78));
}

// Going through a double would round them first, to a tie.
TEST(CastElements, IntegersAreRoundedOnce) {
  const int64_t tie = (int64_t{1} << 60) + (int64_t{1} << 52);
  const uint16_t even = BitsOf(std::ldexp(1, 60), DType::kBf16);
  const auto next = static_cast<uint16_t>(even + 1);
  EXPECT_OK(CastOneOf(DType::kI64, tie, DType::kBf16, even));
  EXPECT_OK(CastOneOf(DType::kI64, tie + 1, DType::kBf16, next));
  EXPECT_OK(CastOneOf(DType::kI64, tie - 1, DType::kBf16, even));
  EXPECT_OK(CastOneOf(DType::kI64, -tie - 1, DType::kBf16,
                      static_cast<uint16_t>(next | 0x8000)));
  EXPECT_OK(CastOneOf(DType::kU64, static_cast<uint64_t>(tie) * 8 + 1,
                      DType::kBf16, BitsOf(std::ldexp(129, 56), DType::kBf16)));
}

TEST(CastElements, SameDTypeIsCopied) {
  // A NaN with a payload.
  const std::vector<uint32_t> in = {0x7fc12345, 0x80000000};
  EXPECT_EQ(Cast<uint32_t>(DType::kF32, in, DType::kF32), in);
  EXPECT_OK(CastElements(DType::kF32, nullptr, DType::kF32, nullptr, 0));
  EXPECT_OK(CastElements(DType::kF32, nullptr, DType::kF16, nullptr, 0));
}

TEST(CastElements, AcceptsUnalignedArrays) {
  std::string in(1 + 3 * sizeof(float), '\0');
  const float numbers[] = {1, -2, 0.5};
  std::memcpy(in.data() + 1, numbers, sizeof(numbers));
  std::string out(1 + 3 * sizeof(double), '\0');
  ASSERT_OK(
      CastElements(DType::kF32, in.data() + 1, DType::kF64, out.data() + 1, 3));
  double got[3];
  std::memcpy(got, out.data() + 1, sizeof(got));
  EXPECT_THAT(got, ElementsAre(1, -2, 0.5));
}

}  // namespace
}  // namespace ckptdb::testing
