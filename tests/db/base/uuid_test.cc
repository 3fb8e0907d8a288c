// SPDX-License-Identifier: Apache-2.0
#include "db/base/uuid.h"

#include <gtest/gtest.h>

#include "db/meta/lease.h"

namespace ckptdb::internal {
namespace {

TEST(UuidTest, TimeUuidsSortAsTheirTimesDo) {
  const std::vector<int64_t> times = {-1,
                                      1,
                                      999,
                                      1'000,
                                      1'001,
                                      1'999,
                                      1'000'000'000,
                                      1'764'000'000'000'000,
                                      1'764'000'000'000'001};
  std::string before;
  for (const int64_t micros : times) {
    const std::string uuid = NewTimeUuid(micros);
    EXPECT_TRUE(IsLeaseName(uuid)) << uuid;
    EXPECT_TRUE(IsTimeUuid(uuid)) << uuid;
    EXPECT_LT(before, uuid) << "at " << micros;
    before = uuid;
  }
}

TEST(UuidTest, TimeUuidsOfOneMomentDiffer) {
  EXPECT_NE(NewTimeUuid(1'764'000'000'000'000),
            NewTimeUuid(1'764'000'000'000'000));
}

TEST(UuidTest, NamesWithoutATimeAreKnown) {
  EXPECT_FALSE(IsTimeUuid(""));
  EXPECT_FALSE(IsTimeUuid("01234567-89ab-cdef-8123-456789abcdef"));
  EXPECT_FALSE(IsTimeUuid("01234567-89ab-7def-0123-456789abcdef"));
  EXPECT_TRUE(IsTimeUuid("01234567-89ab-7def-8123-456789abcdef"));
}

}  // namespace
}  // namespace ckptdb::internal
