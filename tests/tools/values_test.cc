#include "ckptdb/tools/values.h"

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace ckptdb::tool {
namespace {

template <typename T>
std::string Bytes(const std::vector<T>& values) {
  std::string bytes(values.size() * sizeof(T), '\0');
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

struct Case {
  uint16_t bits;
  double number;
};

constexpr double kInfinity = std::numeric_limits<double>::infinity();

TEST(DecodeSmallFloat, F16) {
  for (const Case& c : std::vector<Case>{{0x0000, 0},
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

TEST(DecodeSmallFloat, Bf16IsTheUpperHalfOfF32) {
  for (uint32_t bits = 0; bits <= 0xffff; ++bits) {
    const uint32_t wide = bits << 16;
    float expected = 0;
    std::memcpy(&expected, &wide, sizeof(expected));
    const float number =
        DecodeSmallFloat(DType::kBf16, static_cast<uint16_t>(bits));
    if (std::isnan(expected)) {
      EXPECT_TRUE(std::isnan(number)) << bits;
    } else {
      EXPECT_EQ(number, expected) << bits;
      EXPECT_EQ(std::signbit(number), std::signbit(expected)) << bits;
    }
  }
}

TEST(DecodeSmallFloat, F8E5M2IsTheUpperHalfOfF16) {
  for (uint32_t bits = 0; bits <= 0xff; ++bits) {
    const float expected =
        DecodeSmallFloat(DType::kF16, static_cast<uint16_t>(bits << 8));
    const float number =
        DecodeSmallFloat(DType::kF8E5M2, static_cast<uint16_t>(bits));
    if (std::isnan(expected)) {
      EXPECT_TRUE(std::isnan(number)) << bits;
    } else {
      EXPECT_EQ(number, expected) << bits;
    }
  }
}

TEST(DecodeSmallFloat, F8E4M3HasNoInfinity) {
  for (const Case& c : std::vector<Case>{{0x00, 0},
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

TEST(ElementText, HasTheDigitsOfItsDType) {
  EXPECT_EQ(ElementText(DType::kF32, Bytes<float>({0.1F})), "0.1");
  EXPECT_EQ(ElementText(DType::kF64, Bytes<double>({0.1})), "0.1");
  EXPECT_EQ(ElementText(DType::kF64, Bytes<double>({0.1F})),
            "0.10000000149011612");
  EXPECT_EQ(ElementText(DType::kF32, Bytes<float>({-0.0F})), "-0");
  EXPECT_EQ(ElementText(DType::kBf16, Bytes<uint16_t>({0x3dcd})),
            "0.100097656");
  EXPECT_EQ(ElementText(DType::kF32, Bytes<float>({-std::nanf("")})), "nan");
  EXPECT_EQ(ElementText(DType::kF16, Bytes<uint16_t>({0xfc00})), "-inf");
}

TEST(ElementText, OfIntegersAndBools) {
  EXPECT_EQ(ElementText(DType::kI8, Bytes<int8_t>({-128})), "-128");
  EXPECT_EQ(ElementText(DType::kU8, Bytes<uint8_t>({255})), "255");
  EXPECT_EQ(ElementText(DType::kI64, Bytes<int64_t>({INT64_MIN})),
            "-9223372036854775808");
  EXPECT_EQ(ElementText(DType::kU64, Bytes<uint64_t>({UINT64_MAX})),
            "18446744073709551615");
  EXPECT_EQ(ElementText(DType::kBool, Bytes<uint8_t>({2})), "true");
  EXPECT_EQ(ElementText(DType::kBool, Bytes<uint8_t>({0})), "false");
}

TEST(ElementsText, StopsAtTheLimit) {
  const std::string bytes = Bytes<uint16_t>({1, 2, 3});
  EXPECT_EQ(ElementsText(DType::kU16, bytes, 2), "1 2 ... 1 more");
  EXPECT_EQ(ElementsText(DType::kU16, bytes, 3), "1 2 3");
}

TEST(ElementsJson, KeepsNumbersAsTheyAre) {
  EXPECT_EQ(ElementsJson(DType::kU64, Bytes<uint64_t>({0, UINT64_MAX})).dump(),
            "[0,18446744073709551615]");
  EXPECT_EQ(ElementsJson(DType::kBool, Bytes<uint8_t>({1, 0})).dump(),
            "[true,false]");
  EXPECT_EQ(ElementsJson(DType::kF32, Bytes<float>({0.5F, NAN})).dump(),
            "[0.5,\"nan\"]");
}

TEST(ValuesJson, NamesTheSlots) {
  const Json json =
      ValuesJson({{"freq", DType::kI16, 2}}, {Bytes<int16_t>({-1, 7})});
  EXPECT_EQ(json.dump(),
            "[{\"name\":\"freq\",\"dtype\":\"i16\",\"elements\":2,"
            "\"values\":[-1,7]}]");
}

}  // namespace
}  // namespace ckptdb::tool
