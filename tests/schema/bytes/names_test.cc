// SPDX-License-Identifier: Apache-2.0
#include "schema/bytes/names.h"

#include "schema/types.h"
#include "tests/support/test.h"

namespace ckptdb::testing {
namespace {

auto IsBadName(const std::string& words) {
  return InvalidArgument(StartsWith("item name \""), words);
}

TEST(CheckName, Lengths) {
  EXPECT_THAT(CheckName("item name", ""), IsBadName("is empty"));
  EXPECT_OK(CheckName("item name", "a"));
  EXPECT_OK(CheckName("item name", std::string(kMaxNameBytes - 1, 'a')));
  EXPECT_OK(CheckName("item name", std::string(kMaxNameBytes, 'a')));
  EXPECT_THAT(CheckName("item name", std::string(kMaxNameBytes + 1, 'a')),
              IsBadName("...\" has 513 bytes; the limit is 512"));
}

TEST(CheckName, ReportsThePlaceOfANul) {
  EXPECT_THAT(CheckName("item name", std::string("ab\0c", 4)),
              IsBadName("has a NUL at byte 2"));
}

TEST(CheckName, Utf8OfEveryLength) {
  for (const char* name :
       {"\x01", "\x7f", "\xc2\x80", "\xdf\xbf", "\xe0\xa0\x80", "\xed\x9f\xbf",
        "\xee\x80\x80", "\xef\xbf\xbf", "\xf0\x90\x80\x80", "\xf4\x8f\xbf\xbf",
        "a\xc3\xa9z\xe2\x82\xac"}) {
    EXPECT_OK(CheckName("item name", name));
  }
}

TEST(CheckName, RejectsIllFormedUtf8) {
  // Lone tails, overlong forms, surrogates, beyond U+10FFFF, truncated.
  for (const char* name :
       {"ab\x80", "ab\xbf", "ab\xc0\x80", "ab\xc1\xbf", "ab\xc2", "ab\xc2\x7f",
        "ab\xc2\xc0", "ab\xe0\x9f\xbf", "ab\xe0\xa0", "ab\xe1\x80\x7f",
        "ab\xed\xa0\x80", "ab\xed\xbf\xbf", "ab\xf0\x8f\xbf\xbf",
        "ab\xf1\x80\x80", "ab\xf4\x90\x80\x80", "ab\xf5\x80\x80\x80",
        "ab\xff"}) {
    EXPECT_THAT(CheckName("item name", name),
                IsBadName("is not UTF-8 at byte 2"));
  }
}

}  // namespace
}  // namespace ckptdb::testing
