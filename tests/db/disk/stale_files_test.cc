// SPDX-License-Identifier: Apache-2.0
// Opening a store on a file system that is not coherent between hosts: a client
// is shown for a while what another one has replaced or removed.

#include "tests/db/odd_files.h"

namespace ckptdb::testing {
namespace {

class StaleFilesTest : public StoreFixture {
 protected:
  StaleFilesTest() { reading_.environment = EnvironmentOf(files_); }
  void SetUp() override {
    StoreFixture::SetUp();
    ASSERT_OK(Save(1, SmallContent(1)));
  }
  void ExpectReads() {
    ASSERT_OK_AND_ASSIGN(const auto reader, Reader::Open(path(), reading_));
    ExpectHolds(*reader->OpenStep(1).value(), {SmallContent(1)});
  }
  const std::shared_ptr<StaleFiles> files_ = OnDisk<StaleFiles>();
  StoreOptions reading_;
};

TEST_F(StaleFilesTest, OpensAgainAfterAStaleHandle) {
  for (const char* name : {"/WATERMARK", "/CURRENT"}) {
    SCOPED_TRACE(name);
    files_->stale_name = name;
    files_->stale_opens = 3;
    ExpectReads();
    EXPECT_EQ(files_->stale_opens, 0);
  }
}

TEST_F(StaleFilesTest, OpensAgainAfterAnOldListing) {
  constexpr int kListings = 7;
  files_->stale_listings = kListings;
  ExpectReads();
  EXPECT_LE(files_->stale_listings, 0);
}

TEST_F(StaleFilesTest, RefreshesBesideAStaleHandle) {
  ASSERT_OK_AND_ASSIGN(const auto reader, Reader::Open(path(), reading_));
  ASSERT_OK(Save(2, SmallContent(2)));
  files_->stale_opens = 2;
  ASSERT_OK(reader->Refresh());
  EXPECT_OK(reader->FindStep(2));
}

TEST_F(StaleFilesTest, GivesUpAndSaysHowOftenItTried) {
  files_->stale_opens = 1'000'000;
  EXPECT_THAT(Reader::Open(path(), reading_),
              Unavailable(path(), "in 12 tries over ", "WATERMARK",
                          std::strerror(ESTALE)));
  files_->stale_opens = 0;
  ExpectReads();
}

}  // namespace
}  // namespace ckptdb::testing
