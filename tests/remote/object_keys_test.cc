// SPDX-License-Identifier: Apache-2.0
#include "remote/layout/object_keys.h"

#include <cstdint>
#include <limits>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/status_matchers.h"

namespace ckptdb::testing {
namespace {

using internal::CatalogKey;
using internal::DataObjectKey;
using internal::ParseCatalogKey;
using internal::ParseDataObjectKey;
using internal::ParseVersionObjectKey;
using internal::VersionObjectKey;

TEST(ObjectKeys, AreThoseOfTheDocument) {
  EXPECT_EQ(CatalogKey(1), "catalog/18446744073709551614");
  const internal::ObjectName name{3, {1200, 7}, 2};
  EXPECT_EQ(VersionObjectKey(name),
            "versions/0000000000000003/0000000000000001200-0000000007-000002");
  EXPECT_EQ(DataObjectKey(name),
            "data/0000000000000003/0000000000000001200-0000000007-000002");
}

TEST(ObjectKeys, SortNewerCatalogsFirst) {
  for (const uint64_t number :
       {uint64_t{1}, uint64_t{9}, uint64_t{10}, uint64_t{1} << 40}) {
    EXPECT_LT(CatalogKey(number + 1), CatalogKey(number));
    ASSERT_OK_AND_ASSIGN(const uint64_t parsed,
                         ParseCatalogKey(CatalogKey(number)));
    EXPECT_EQ(parsed, number);
  }
}

TEST(ObjectKeys, ParseWhatTheyWrite) {
  const internal::ObjectName name{9'999'999'999'999'999,
                                  {std::numeric_limits<int64_t>::max(),
                                   std::numeric_limits<uint32_t>::max()},
                                  999'999};
  ASSERT_OK_AND_ASSIGN(const auto version,
                       ParseVersionObjectKey(VersionObjectKey(name)));
  ASSERT_OK_AND_ASSIGN(const auto data,
                       ParseDataObjectKey(DataObjectKey(name)));
  for (const internal::ObjectName& parsed : {version, data}) {
    EXPECT_EQ(parsed.epoch, name.epoch);
    EXPECT_EQ(parsed.version, name.version);
    EXPECT_EQ(parsed.number, name.number);
  }
}

TEST(ObjectKeys, RefuseOthers) {
  for (const std::string key :
       {"", "catalog/", "catalog/1", "catalog/0000000000000000000x",
        "catalog/18446744073709551615", "catalog/99999999999999999999",
        "versions/18446744073709551614"}) {
    EXPECT_THAT(ParseCatalogKey(key), DataLoss(key)) << key;
  }
  for (const std::string key :
       {"data/1/1-1-1", "data/0000000000000003/x",
        "versions/0000000000000003/0000000000000001200-0000000007-000002",
        "data/0000000000000003/0000000000000001200-0000000007-000002-1",
        "data/0000000000000003-0000000000000001200/0000000007-000002"}) {
    EXPECT_THAT(ParseDataObjectKey(key), DataLoss(key)) << key;
  }
}

}  // namespace
}  // namespace ckptdb::testing
