// SPDX-License-Identifier: Apache-2.0
#include "schema/bytes/small_float.h"

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "gtest/gtest.h"

namespace ckptdb::internal {
namespace {

struct KnownFloat {
  uint16_t bits;
  double number;
};

constexpr double kInfinity = std::numeric_limits<double>::infinity();

TEST(DecodeSmallFloat, F16) {
  for (const KnownFloat& c :
       std::vector<KnownFloat>{{0x0000, 0},
                               {0x0001, std::ldexp(1, -24)},
                               {0x03ff, std::ldexp(1023, -24)},
                               {0x0400, std::ldexp(1, -14)},
                               {0x3555, 0.333251953125},
                               {0x3c00, 1},
                               {0xc000, -2},
                               {0x7bff, 65504},
                               {0x7c00, kInfinity},
                               {0xfc00, -kInfinity}}) {
    EXPECT_EQ(DecodeSmallFloat(DType::kF16, c.bits), c.number) << c.bits;
  }
  EXPECT_TRUE(std::isnan(DecodeSmallFloat(DType::kF16, 0x7c01)));
  EXPECT_TRUE(std::isnan(DecodeSmallFloat(DType::kF16, 0xfe00)));
  EXPECT_TRUE(std::signbit(DecodeSmallFloat(DType::kF16, 0x8000)));
}

// Expects the same number, sign and all, or a NaN for a NaN.
void ExpectSameFloat(float number, float expected, uint32_t bits) {
  EXPECT_EQ(std::isnan(number), std::isnan(expected)) << bits;
  if (std::isnan(expected)) return;
  EXPECT_EQ(number, expected) << bits;
  EXPECT_EQ(std::signbit(number), std::signbit(expected)) << bits;
}

TEST(DecodeSmallFloat, Bf16AndF8E5M2AreUpperHalves) {
  for (uint32_t bits = 0; bits <= 0xffff; ++bits) {
    ExpectSameFloat(DecodeSmallFloat(DType::kBf16, static_cast<uint16_t>(bits)),
                    std::bit_cast<float>(bits << 16), bits);
  }
  for (uint32_t bits = 0; bits <= 0xff; ++bits) {
    ExpectSameFloat(
        DecodeSmallFloat(DType::kF8E5M2, static_cast<uint16_t>(bits)),
        DecodeSmallFloat(DType::kF16, static_cast<uint16_t>(bits << 8)), bits);
  }
}

TEST(DecodeSmallFloat, F8E4M3HasNoInfinity) {
  for (const KnownFloat& c : std::vector<KnownFloat>{{0x00, 0},
                                                     {0x01, std::ldexp(1, -9)},
                                                     {0x07, std::ldexp(7, -9)},
                                                     {0x08, std::ldexp(1, -6)},
                                                     {0x38, 1},
                                                     {0x39, 1.125},
                                                     {0xb8, -1},
                                                     {0x78, 256},
                                                     {0x7e, 448},
                                                     {0xfe, -448}}) {
    EXPECT_EQ(DecodeSmallFloat(DType::kF8E4M3, c.bits), c.number) << c.bits;
  }
  EXPECT_TRUE(std::isnan(DecodeSmallFloat(DType::kF8E4M3, 0x7f)));
  EXPECT_TRUE(std::isnan(DecodeSmallFloat(DType::kF8E4M3, 0xff)));
  for (uint16_t bits = 1; bits < 0x7f; ++bits) {
    EXPECT_LT(DecodeSmallFloat(DType::kF8E4M3, static_cast<uint16_t>(bits - 1)),
              DecodeSmallFloat(DType::kF8E4M3, bits))
        << bits;
  }
}

}  // namespace
}  // namespace ckptdb::internal
