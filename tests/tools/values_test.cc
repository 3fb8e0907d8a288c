// SPDX-License-Identifier: Apache-2.0
#include "tools/values.h"

#include <cmath>
#include <cstdint>
#include <cstring>
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

TEST(ElementText, ShowsIntegersAndBools) {
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

TEST(ElementsJson, KeepsNumbersExact) {
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
