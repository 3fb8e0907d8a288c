// SPDX-License-Identifier: Apache-2.0
#include "schema/records/checks.h"

#include "schema/bytes/limits.h"
#include "schema/types.h"
#include "tests/support/test.h"

namespace ckptdb::testing {
namespace {

using internal::CheckPath;
using internal::CheckSliceBounds;
using internal::CheckUuid;
using internal::CheckVersion;

constexpr auto kKind = internal::RecordKind::kLease;

auto IsBad(const std::string& words) {
  return DataLoss(StartsWith("lease: "), words);
}

TEST(CheckUuid, LengthsAtAndOverTheLimits) {
  EXPECT_THAT(CheckUuid(kKind, ""),
              IsBad("uuid \"\" of 0 bytes is invalid; expected 1 to"));
  EXPECT_OK(CheckUuid(kKind, "a"));
  EXPECT_OK(CheckUuid(kKind, std::string(kMaxUuidBytes - 1, 'f')));
  EXPECT_OK(CheckUuid(kKind, std::string(kMaxUuidBytes, 'f')));
  EXPECT_THAT(CheckUuid(kKind, std::string(kMaxUuidBytes + 1, 'f')),
              IsBad("of 65 bytes is invalid; expected 1 to 64 letters"));
}

TEST(CheckUuid, RejectsOtherCharacters) {
  EXPECT_OK(CheckUuid(kKind, "09-azAZ"));
  for (const std::string& uuid :
       {std::string("a/b"), std::string("."), std::string("a b"),
        std::string("a_b"), std::string("a\0b", 3), std::string("\xc3\xa9")}) {
    EXPECT_THAT(CheckUuid(kKind, uuid), IsBad("letters, digits and hyphens"));
  }
}

TEST(CheckVersion, ChecksTheLowerLimits) {
  EXPECT_OK(CheckVersion(kKind, "place", {0, 1}));
  EXPECT_THAT(CheckVersion(kKind, "place", {-1, 1}),
              IsBad("place has negative step -1"));
  EXPECT_THAT(CheckVersion(kKind, "place", {0, 0}),
              IsBad("place has attempt 0"));
}

TEST(CheckSliceBounds, RanksMayHaveNoSlices) {
  EXPECT_OK(CheckSliceBounds(kKind, {}, 3));
  EXPECT_OK(CheckSliceBounds(kKind, {0, kSlices}, 1));
  EXPECT_OK(CheckSliceBounds(kKind, {0, 0, 7, kSlices, kSlices}, 4));
  EXPECT_THAT(CheckSliceBounds(kKind, {0, 8, 7, kSlices}, 3),
              IsBad("slice bounds decrease from 8 to 7 at rank 2"));
  EXPECT_THAT(CheckSliceBounds(kKind, {0}, ~uint32_t{0}),
              IsBad("slice bounds have 1 entries; expected 4294967296"));
}

TEST(CheckPath, RejectsPathsOutsideOfTheFolder) {
  for (const char* path : {"a", "a/b", "a/", "a//b", "./a", "..a/b.."}) {
    EXPECT_OK(CheckPath(kKind, "path", path));
  }
  EXPECT_THAT(CheckPath(kKind, "path", ""), IsBad("path \"\" is empty"));
  EXPECT_THAT(CheckPath(kKind, "path", "/"), IsBad("is absolute"));
  for (const char* path : {"..", "../a", "a/..", "a/../b"}) {
    EXPECT_THAT(CheckPath(kKind, "path", path), IsBad("contains \"..\""));
  }
}

}  // namespace
}  // namespace ckptdb::testing
