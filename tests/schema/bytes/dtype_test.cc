// SPDX-License-Identifier: Apache-2.0
#include "schema/bytes/dtype.h"

#include "schema/types.h"
#include "tests/support/test.h"

namespace ckptdb::testing {
namespace {

// The numbers are stored, so they are spelled out here.
TEST(DType, NumbersNamesAndBytes) {
  const std::vector<std::pair<std::string, uint32_t>> expected = {
      {"f64", 8},    {"f32", 4}, {"f16", 2}, {"bf16", 2}, {"f8e4m3", 1},
      {"f8e5m2", 1}, {"i64", 8}, {"i32", 4}, {"i16", 2},  {"i8", 1},
      {"u64", 8},    {"u32", 4}, {"u16", 2}, {"u8", 1},   {"bool", 1}};
  ASSERT_EQ(expected.size(), kDTypes);
  for (uint8_t number = 0; number < kDTypes; ++number) {
    ASSERT_OK_AND_ASSIGN(const DType dtype, DTypeFromStored(number));
    EXPECT_EQ(static_cast<uint8_t>(dtype), number);
    EXPECT_EQ(std::string(DTypeName(dtype)), expected[number].first);
    EXPECT_EQ(DTypeBytes(dtype), expected[number].second);
    EXPECT_EQ(ParseDType(DTypeName(dtype)).value(), dtype);
  }
}

TEST(DType, RejectsUnknownNumbers) {
  for (int number = kDTypes; number < 256; ++number) {
    EXPECT_THAT(DTypeFromStored(static_cast<uint8_t>(number)),
                DataLoss("invalid stored dtype " + std::to_string(number) +
                         "; expected less than 15"));
  }
}

TEST(DType, RejectsUnknownNames) {
  for (const char* name : {"", "F32", "f32 ", "float", "u128"}) {
    EXPECT_THAT(ParseDType(name),
                InvalidArgument("unknown dtype \"" + std::string(name) +
                                "\"; expected one of f64, f32"));
  }
}

}  // namespace
}  // namespace ckptdb::testing
