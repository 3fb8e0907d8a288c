// SPDX-License-Identifier: Apache-2.0

#include "tests/support/no_threads.h"
#include "tests/db/store_fixture.h"

namespace ckptdb::testing {
namespace {

class NoThreadsTest : public StoreFixture {
 protected:
  void SetUp() override {
    if (!NoThreads::kWorks) GTEST_SKIP() << "of a sanitizer's build";
    StoreFixture::SetUp();
  }
};

// Wherever in opening the threads run out; RocksDB's of the process are there
// from the first opening on.
TEST_F(NoThreadsTest, AStoreIsNotOpened) {
  ASSERT_OK(Save(1, SmallContent(1)));
  store_.reset();
  int first = 0;
  for (; first < 100; ++first) {
    SCOPED_TRACE(first);
    {
      const NoThreads none(first);
      const auto opened = Store::Open(path(), options_);
      if (opened.ok()) break;
      EXPECT_THAT(opened, ResourceExhausted("starting the "));
    }
    Reopen();
    ExpectStep(1, {SmallContent(1)});
    store_.reset();
  }
  EXPECT_GT(first, 2);
  EXPECT_LT(first, 100);
}

TEST_F(NoThreadsTest, SavesAndReadsGoOnWithoutWorkers) {
  RankContent content = BulkContent(1);
  const NoThreads none;
  ASSERT_OK(Save(1, content));
  ExpectStep(1, {content});
}

TEST_F(NoThreadsTest, AReaderGivesBackALeaseThatNobodyRenews) {
  ASSERT_OK(Save(1, SmallContent(1)));
  ASSERT_OK_AND_ASSIGN(const auto reader, Reader::Open(path()));
  {
    // Nothing was written since, so that nothing is opened again.
    const NoThreads none;
    EXPECT_THAT(reader->OpenStep(1), ResourceExhausted("lease renewal thread"));
  }
  EXPECT_EQ(LeaseFiles(), 0U);
  ASSERT_OK_AND_ASSIGN(const auto step, reader->OpenStep(1));
  EXPECT_EQ(LeaseFiles(), 1U);
  ExpectHolds(*step, {SmallContent(1)});
}

}  // namespace
}  // namespace ckptdb::testing
