// SPDX-License-Identifier: Apache-2.0
#include "tools/format.h"

#include <cstdint>
#include <limits>
#include <string>

#include "gtest/gtest.h"

namespace ckptdb::tool {
namespace {

constexpr uint64_t kKiB = 1024;
constexpr int64_t kSecond = 1'000'000;

TEST(FormatBytes, ChangesUnitsAtPowersOf1024) {
  EXPECT_EQ(FormatBytes(0), "0 B");
  EXPECT_EQ(FormatBytes(1023), "1023 B");
  EXPECT_EQ(FormatBytes(kKiB), "1.0 KiB");
  EXPECT_EQ(FormatBytes(1536), "1.5 KiB");
  EXPECT_EQ(FormatBytes(kKiB * kKiB), "1.0 MiB");
  EXPECT_EQ(FormatBytes(kKiB * kKiB * kKiB * 5 / 2), "2.5 GiB");
  EXPECT_EQ(FormatBytes(std::numeric_limits<uint64_t>::max()), "16.0 EiB");
}

TEST(FormatBytes, NeverPrints1024OfAUnit) {
  EXPECT_EQ(FormatBytes(kKiB * kKiB - 1), "1.0 MiB");
  EXPECT_EQ(FormatBytes(kKiB * 1023 + 900), "1023.9 KiB");
}

TEST(FormatCount, GroupsThousands) {
  EXPECT_EQ(FormatCount(0), "0");
  EXPECT_EQ(FormatCount(999), "999");
  EXPECT_EQ(FormatCount(1000), "1,000");
  EXPECT_EQ(FormatCount(8000000), "8,000,000");
  EXPECT_EQ(FormatCount(std::numeric_limits<uint64_t>::max()),
            "18,446,744,073,709,551,615");
}

TEST(FormatUtc, IgnoresTheTimeZone) {
  EXPECT_EQ(FormatUtc(0), "1970-01-01 00:00:00");
  EXPECT_EQ(FormatUtc(1'700'000'000 * kSecond), "2023-11-14 22:13:20");
  EXPECT_EQ(FormatIsoUtc(1'700'000'000 * kSecond + 123456),
            "2023-11-14T22:13:20.123456Z");
}

TEST(FormatDuration, ChangesUnits) {
  EXPECT_EQ(FormatDuration(0), "0 us");
  EXPECT_EQ(FormatDuration(999), "999 us");
  EXPECT_EQ(FormatDuration(1500), "1.5 ms");
  EXPECT_EQ(FormatDuration(999'960), "1.0 s");
  EXPECT_EQ(FormatDuration(12 * kSecond), "12.0 s");
  EXPECT_EQ(FormatDuration(120 * kSecond), "2.0 min");
}

TEST(FormatAge, ChangesUnits) {
  constexpr int64_t kNow = 1'700'000'000 * kSecond;
  const auto age = [](int64_t seconds) {
    return FormatAge(kNow - seconds * kSecond, kNow);
  };
  EXPECT_EQ(age(0), "0 s");
  EXPECT_EQ(age(119), "119 s");
  EXPECT_EQ(age(120), "2 min");
  EXPECT_EQ(age(7199), "119 min");
  EXPECT_EQ(age(7200), "2 h");
  EXPECT_EQ(age(48 * 3600 - 1), "47 h");
  EXPECT_EQ(age(48 * 3600), "2 d");
}

TEST(FormatAge, TreatsFutureTimesAsNow) {
  EXPECT_EQ(FormatAge(kSecond, 0), "0 s");
  EXPECT_EQ(FormatAge(std::numeric_limits<int64_t>::max(),
                      std::numeric_limits<int64_t>::min()),
            "0 s");
}

TEST(FormatAge, DoesNotOverflow) {
  EXPECT_EQ(FormatAge(std::numeric_limits<int64_t>::min(),
                      std::numeric_limits<int64_t>::max()),
            "213503982 d");
}

TEST(FormatHash, HasAllDigits) {
  EXPECT_EQ(FormatHash(0xabc), "0000000000000abc");
  EXPECT_EQ(FormatHash(~uint64_t{0}), "ffffffffffffffff");
}

TEST(DisplayWidth, CountsCodePoints) {
  EXPECT_EQ(DisplayWidth(""), 0u);
  EXPECT_EQ(DisplayWidth("abc"), 3u);
  EXPECT_EQ(DisplayWidth("größe"), 5u);
}

}  // namespace
}  // namespace ckptdb::tool
