// SPDX-License-Identifier: Apache-2.0
// Which names are valid, and how any text is printed.
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

TEST(Printable, LeavesTextAlone) {
  EXPECT_EQ(Printable(""), "");
  EXPECT_EQ(Printable("mlp.0/weight \"x\""), "mlp.0/weight \"x\"");
  EXPECT_EQ(Printable("größe 表 \xf0\x9f\x98\x80"),
            "größe 表 \xf0\x9f\x98\x80");
}

TEST(Printable, EscapesControlCharacters) {
  EXPECT_EQ(Printable("a\nb\tc"), "a\\nb\\tc");
  EXPECT_EQ(Printable("\x1b[2J\x7f"), "\\x1b[2J\\x7f");
  EXPECT_EQ(Printable("\xc2\x9b"), "\\xc2\\x9b");           // U+009B
  EXPECT_EQ(Printable("\xe2\x80\xae"), "\\xe2\\x80\\xae");  // U+202E
  EXPECT_EQ(Printable(absl::string_view("\0", 1)), "\\x00");
  EXPECT_EQ(Printable("\\n"), "\\\\n");
}

TEST(Printable, EscapesInvisibleCharacters) {
  const std::vector<std::pair<std::string, std::string>> unseen = {
      {"U+00AD", "\xc2\xad"},          {"U+034F", "\xcd\x8f"},
      {"U+061C", "\xd8\x9c"},          {"U+115F", "\xe1\x85\x9f"},
      {"U+180E", "\xe1\xa0\x8e"},      {"U+200B", "\xe2\x80\x8b"},
      {"U+200D", "\xe2\x80\x8d"},      {"U+200F", "\xe2\x80\x8f"},
      {"U+2028", "\xe2\x80\xa8"},      {"U+2060", "\xe2\x81\xa0"},
      {"U+2066", "\xe2\x81\xa6"},      {"U+206F", "\xe2\x81\xaf"},
      {"U+3164", "\xe3\x85\xa4"},      {"U+FE0F", "\xef\xb8\x8f"},
      {"U+FEFF", "\xef\xbb\xbf"},      {"U+FFFB", "\xef\xbf\xbb"},
      {"U+1D173", "\xf0\x9d\x85\xb3"}, {"U+E0001", "\xf3\xa0\x80\x81"},
      {"U+E01EF", "\xf3\xa0\x87\xaf"},
  };
  for (const auto& [name, text] : unseen) {
    const std::string shown = Printable("a" + text + "b");
    EXPECT_EQ(shown.size(), 2 + 4 * text.size()) << name << " " << shown;
    EXPECT_EQ(shown.substr(0, 3), "a\\x") << name;
  }
}

// Neighbours of the escaped characters.
TEST(Printable, LeavesVisibleCharacters) {
  for (const std::string& seen :
       {std::string(" "), std::string("~"), std::string("\xc2\xa0"),
        std::string("\xc2\xac"), std::string("\xc2\xae"),
        std::string("\xe2\x80\x8a"), std::string("\xe2\x80\x90"),
        std::string("\xe2\x80\xa7"), std::string("\xe2\x80\xaf"),
        std::string("\xe2\x81\x9f"), std::string("\xe2\x81\xb0"),
        std::string("\xef\xbf\xbd"), std::string("\xf0\x9d\x85\xb2")}) {
    EXPECT_EQ(Printable(seen), seen);
  }
}

TEST(Printable, EscapesInvalidUtf8) {
  EXPECT_EQ(Printable("a\xff"), "a\\xff");
  EXPECT_EQ(Printable("\xc3"), "\\xc3");                    // truncated
  EXPECT_EQ(Printable("\xc3x"), "\\xc3x");                  // no continuation
  EXPECT_EQ(Printable("\xc0\xaf"), "\\xc0\\xaf");           // overlong
  EXPECT_EQ(Printable("\xed\xa0\x80"), "\\xed\\xa0\\x80");  // a surrogate
  EXPECT_EQ(Printable("\xf4\x90\x80\x80"), "\\xf4\\x90\\x80\\x80");
}

TEST(PrintableJson, KeepsTheMeaning) {
  EXPECT_EQ(PrintableJson("{\n  \"größe\": \"\\u001b\"\n}"),
            "{\n  \"größe\": \"\\u001b\"\n}");
  EXPECT_EQ(PrintableJson("\"a\xe2\x80\x8b\""), "\"a\\u200b\"");
  EXPECT_EQ(PrintableJson("\"\x7f\xc2\x9b\""), "\"\\u007f\\u009b\"");
  EXPECT_EQ(PrintableJson("\"\xf3\xa0\x80\x81\""), "\"\\udb40\\udc01\"");
  // A truncated character is not a code point.
  EXPECT_EQ(PrintableJson("\"\xe2\x80\"A"), "\"\xe2\x80\"A");
}

}  // namespace
}  // namespace ckptdb::testing
