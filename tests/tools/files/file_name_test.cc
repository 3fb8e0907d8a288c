// SPDX-License-Identifier: Apache-2.0
// Names of files and of members of archives.
#include "tools/files/file_name.h"

#include "gtest/gtest.h"

namespace ckptdb::tool {
namespace {

TEST(FileNameTest, EscapesWhatLeavesAFolder) {
  EXPECT_EQ(EscapeFileName("mlp.0/weight"), "mlp.0%2Fweight");
  EXPECT_EQ(EscapeFileName("../../etc/passwd"), "%2E.%2F..%2Fetc%2Fpasswd");
  EXPECT_EQ(EscapeFileName("100%\n\\\x7f"), "100%25%0A%5C%7F");
  EXPECT_EQ(EscapeMemberName("params/dense/kernel"), "params/dense/kernel");
  EXPECT_EQ(EscapeMemberName("/etc/../x/./y"), "%2Fetc/%2E./x/%2E/y");
  EXPECT_EQ(EscapeMemberName("a//b/"), "a%2F%2Fb%2F");
}

TEST(FileNameTest, NamesComeBack) {
  for (const char* name :
       {"w", "..", ".", "/", "//", "a/b", "a//b", "../x", "50%", "%41", "a%2Fb",
        "\xc3\xa4/\xe2\x82\xac", "\x01\x1f", "a/.b/..", "...", "a\\b"}) {
    EXPECT_EQ(UnescapeName(EscapeFileName(name)), name);
    EXPECT_EQ(UnescapeName(EscapeMemberName(name)), name);
  }
}

TEST(FileNameTest, NamesOfOthersStay) {
  for (const char* name : {"50%", "%41", "a%2fb", "%zz", "x.%2E"}) {
    EXPECT_EQ(UnescapeName(name), name);
  }
}

}  // namespace
}  // namespace ckptdb::tool
