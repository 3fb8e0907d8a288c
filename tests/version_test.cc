// SPDX-License-Identifier: Apache-2.0
#include "ckptdb/version.h"

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

namespace ckptdb {
namespace {

TEST(Version, LibraryMatchesHeader) {
  EXPECT_STREQ(LibraryVersion(), CKPTDB_VERSION);
}

TEST(Version, TextConsistsOfTheNumbers) {
  EXPECT_EQ(absl::StrCat(CKPTDB_VERSION_MAJOR, ".", CKPTDB_VERSION_MINOR, ".",
                         CKPTDB_VERSION_PATCH),
            CKPTDB_VERSION);
}

}  // namespace
}  // namespace ckptdb
