// Opening a store on a file system that is not coherent between hosts: a client
// is shown for a while what another one has replaced or removed.
#include <gmock/gmock.h>
#include <rocksdb/file_system.h>

#include <atomic>
#include <cerrno>
#include <cstring>

#include "absl/strings/match.h"
#include "ckptdb/db/disk/environment.h"
#include "ckptdb/db/reader.h"
#include "ckptdb/tests/db/store_fixture.h"

namespace ckptdb::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class StaleFiles : public rocksdb::FileSystemWrapper {
 public:
  using FileSystemWrapper::FileSystemWrapper;
  const char* Name() const override { return "StaleFiles"; }

  rocksdb::IOStatus NewSequentialFile(
      const std::string& path, const rocksdb::FileOptions& options,
      std::unique_ptr<rocksdb::FSSequentialFile>* file,
      rocksdb::IODebugContext* debug) override {
    if (absl::EndsWith(path, stale_name) && stale_opens > 0) {
      --stale_opens;
      return rocksdb::IOStatus::IOError(path, std::strerror(ESTALE));
    }
    return FileSystemWrapper::NewSequentialFile(path, options, file, debug);
  }
  rocksdb::IOStatus GetChildren(const std::string& path,
                                const rocksdb::IOOptions& options,
                                std::vector<std::string>* names,
                                rocksdb::IODebugContext* debug) override {
    rocksdb::IOStatus status =
        FileSystemWrapper::GetChildren(path, options, names, debug);
    if (absl::EndsWith(path, "/db") && stale_listings > 0) {
      --stale_listings;
      names->push_back("999999.log");
    }
    return status;
  }

  std::string stale_name = "/WATERMARK";
  std::atomic<int> stale_opens = 0;
  std::atomic<int> stale_listings = 0;
};

class StaleFilesTest : public StoreFixture {
 protected:
  StaleFilesTest()
      : files_(std::make_shared<StaleFiles>(
            internal::Environment::Default()->file_system())) {
    reading_.environment = std::make_shared<internal::Environment>(
        files_, [] { return internal::Environment::Default()->NowMicros(); },
        /*on_disk=*/true);
  }
  void SetUp() override {
    StoreFixture::SetUp();
    ASSERT_OK(Save(1, SmallContent(1)));
  }
  void ExpectReads() {
    ASSERT_OK_AND_ASSIGN(const auto reader, Reader::Open(path(), reading_));
    ASSERT_OK_AND_ASSIGN(const auto step, reader->OpenStep(1));
    ExpectHolds(*step, {SmallContent(1)});
  }

  std::shared_ptr<StaleFiles> files_;
  ReaderOptions reading_;
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
              StatusIs(absl::StatusCode::kUnavailable,
                       AllOf(HasSubstr(path()), HasSubstr("in 12 tries over "),
                             HasSubstr("WATERMARK"),
                             HasSubstr(std::strerror(ESTALE)))));
  files_->stale_opens = 0;
  ExpectReads();
}

}  // namespace
}  // namespace ckptdb::testing
