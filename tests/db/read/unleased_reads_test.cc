// SPDX-License-Identifier: Apache-2.0
// Readers where no lease can be written: read-only mounts, other users' stores,
// full disks.
#include <gmock/gmock.h>
#include <rocksdb/file_system.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <thread>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "db/disk/environment.h"
#include "db/reader.h"
#include "tests/db/store_fixture.h"
#include "tests/support/as_nobody.h"

namespace ckptdb::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

// Refuses leases, and reads of data, with the errors that it is told.
class RefusingFiles : public rocksdb::FileSystemWrapper {
 public:
  using FileSystemWrapper::FileSystemWrapper;
  const char* Name() const override { return "RefusingFiles"; }

  rocksdb::IOStatus NewWritableFile(
      const std::string& path, const rocksdb::FileOptions& options,
      std::unique_ptr<rocksdb::FSWritableFile>* file,
      rocksdb::IODebugContext* debug) override {
    if (absl::StrContains(path, "/leases/") && !lease_error.ok()) {
      return lease_error;
    }
    return FileSystemWrapper::NewWritableFile(path, options, file, debug);
  }
  rocksdb::IOStatus NewRandomAccessFile(
      const std::string& path, const rocksdb::FileOptions& options,
      std::unique_ptr<rocksdb::FSRandomAccessFile>* file,
      rocksdb::IODebugContext* debug) override {
    rocksdb::IOStatus status =
        FileSystemWrapper::NewRandomAccessFile(path, options, file, debug);
    if (status.ok()) {
      *file = std::make_unique<RefusingFile>(std::move(*file), opened_++,
                                             &gone_below_);
    }
    return status;
  }

  // As of files that another host removes, of all that are open by now.
  void LoseOpenFiles() { gone_below_ = opened_.load(); }

  rocksdb::IOStatus lease_error;

 private:
  class RefusingFile : public rocksdb::FSRandomAccessFileOwnerWrapper {
   public:
    RefusingFile(std::unique_ptr<rocksdb::FSRandomAccessFile> file,
                 uint64_t number, const std::atomic<uint64_t>* gone_below)
        : FSRandomAccessFileOwnerWrapper(std::move(file)),
          number_(number),
          gone_below_(gone_below) {}
    rocksdb::IOStatus Read(uint64_t offset, size_t bytes,
                           const rocksdb::IOOptions& options,
                           rocksdb::Slice* result, char* scratch,
                           rocksdb::IODebugContext* debug) const override {
      if (number_ < *gone_below_) {
        return rocksdb::IOStatus::IOError(std::strerror(ESTALE));
      }
      return FSRandomAccessFileOwnerWrapper::Read(offset, bytes, options,
                                                  result, scratch, debug);
    }

   private:
    const uint64_t number_;
    const std::atomic<uint64_t>* const gone_below_;
  };

  std::atomic<uint64_t> opened_ = 0;
  std::atomic<uint64_t> gone_below_ = 0;
};

class UnleasedReadsTest : public StoreFixture {
 protected:
  UnleasedReadsTest()
      : files_(std::make_shared<RefusingFiles>(
            internal::Environment::Default()->file_system())) {
    options_.background_sweep = false;
    options_.directory_mode = 0755;
    options_.file_mode = 0644;
    reading_.environment = std::make_shared<internal::Environment>(
        files_, [] { return internal::Environment::Default()->NowMicros(); },
        /*on_disk=*/true);
    reading_.direct_reads = false;
  }
  absl::StatusOr<std::unique_ptr<Reader>> OpenReader(
      StoreOptions::LeaseMode leases) {
    reading_.leases = leases;
    return Reader::Open(path(), reading_);
  }
  bool HasLeases() const {
    return !std::filesystem::is_empty(path() + "/leases");
  }

  std::shared_ptr<RefusingFiles> files_;
  StoreOptions reading_;
};

TEST_F(UnleasedReadsTest, AStepIsReadWhereNoLeaseCanBeWritten) {
  ASSERT_OK(Save(1, BulkContent(1)));
  for (const rocksdb::IOStatus& error :
       {rocksdb::IOStatus::IOError(std::strerror(EROFS)),
        rocksdb::IOStatus::IOError(std::strerror(EACCES)),
        rocksdb::IOStatus::NoSpace(std::strerror(ENOSPC))}) {
    SCOPED_TRACE(error.ToString());
    files_->lease_error = error;
    ASSERT_OK_AND_ASSIGN(const auto reader,
                         OpenReader(StoreOptions::LeaseMode::kWherePossible));
    ASSERT_OK_AND_ASSIGN(const auto step, reader->OpenStep(1));
    ExpectHolds(*step, {BulkContent(1)});
    ASSERT_OK_AND_ASSIGN(const auto strict,
                         OpenReader(StoreOptions::LeaseMode::kRequired));
    EXPECT_THAT(strict->OpenStep(1),
                StatusIs(absl::StatusCode::kPermissionDenied,
                         AllOf(HasSubstr("cannot lease step 1"),
                               HasSubstr(path() + "/leases"))));
  }
}

TEST_F(UnleasedReadsTest, ALeaseIsWrittenWherePossible) {
  EXPECT_EQ(StoreOptions().leases, StoreOptions::LeaseMode::kWherePossible);
  ASSERT_OK(Save(1, SmallContent(1)));
  for (const StoreOptions::LeaseMode mode :
       {StoreOptions::LeaseMode::kWherePossible,
        StoreOptions::LeaseMode::kRequired, StoreOptions::LeaseMode::kNone}) {
    ASSERT_OK_AND_ASSIGN(const auto reader, OpenReader(mode));
    ASSERT_OK_AND_ASSIGN(const auto step, reader->OpenStep(1));
    EXPECT_EQ(HasLeases(), mode != StoreOptions::LeaseMode::kNone);
    ExpectHolds(*step, {SmallContent(1)});
  }
}

// A disk that fails otherwise is no reason to go without.
TEST_F(UnleasedReadsTest, OtherErrorsOfALeaseAreErrors) {
  ASSERT_OK(Save(1, SmallContent(1)));
  files_->lease_error = rocksdb::IOStatus::IOError(std::strerror(EIO));
  ASSERT_OK_AND_ASSIGN(const auto reader,
                       OpenReader(StoreOptions::LeaseMode::kWherePossible));
  EXPECT_THAT(reader->OpenStep(1), StatusIs(absl::StatusCode::kPermissionDenied,
                                            HasSubstr(std::strerror(EIO))));
}

TEST_F(UnleasedReadsTest, AbortsWhenFilesAreRemoved) {
  ASSERT_OK(Save(1, BulkContent(1)));
  ASSERT_OK(Save(2, BulkContent(2)));
  files_->lease_error = rocksdb::IOStatus::IOError(std::strerror(EROFS));
  ASSERT_OK_AND_ASSIGN(const auto reader,
                       OpenReader(StoreOptions::LeaseMode::kWherePossible));
  ASSERT_OK_AND_ASSIGN(const auto removed, reader->OpenStep(1));
  ASSERT_OK_AND_ASSIGN(const auto kept, reader->OpenStep(2));
  ASSERT_OK(store_->Delete(1));
  ASSERT_OK(store_->Sweep());
  files_->LoseOpenFiles();
  const auto is_removed = StatusIs(
      absl::StatusCode::kAborted,
      AllOf(HasSubstr("step 1 was removed while it was read without a lease"),
            HasSubstr(std::strerror(EROFS)), HasSubstr(std::strerror(ESTALE))));
  EXPECT_THAT(removed->Verify(), is_removed);
  EXPECT_THAT(removed->ReadBlob(0, "reader"), is_removed);
  EXPECT_THAT(removed->LookupRow("user", 1), is_removed);
  std::string bytes(size_t{9} << 20, '\0');
  EXPECT_THAT(removed->ReadTensor("bulk", bytes.data(), bytes.size()),
              is_removed);
  // Of a step that is there, the error is what it is.
  EXPECT_THAT(kept->Verify(), StatusIs(absl::StatusCode::kUnavailable,
                                       AllOf(HasSubstr(std::strerror(ESTALE)),
                                             Not(HasSubstr("removed")))));
}

TEST_F(UnleasedReadsTest, AStepThatWasOverwrittenIsAborted) {
  ASSERT_OK(Save(1, BulkContent(1)));
  ASSERT_OK_AND_ASSIGN(const auto reader,
                       OpenReader(StoreOptions::LeaseMode::kNone));
  ASSERT_OK_AND_ASSIGN(const auto step, reader->OpenStep(1));
  ASSERT_OK(Overwrite(1, BulkContent(2)));
  ASSERT_OK(store_->Sweep());
  files_->LoseOpenFiles();
  EXPECT_THAT(step->Verify(), StatusIs(absl::StatusCode::kAborted,
                                       HasSubstr("without a lease: ")));
  ASSERT_OK_AND_ASSIGN(const auto again, reader->OpenStep(1));
  ExpectHolds(*again, {BulkContent(2)});
}

TEST_F(UnleasedReadsTest, AnotherUsersStoreIsRead) {
  ASSERT_OK(Save(1, BulkContent(1)));
  store_.reset();
  chmod(dir_.path().c_str(), 0755);
  const std::string leases = path() + "/leases";
  chmod(leases.c_str(), 0555);
  {
    const AsNobody nobody;
    if (nobody.failed()) GTEST_SKIP() << "cannot become nobody";
    ASSERT_OK_AND_ASSIGN(const auto reader, Reader::Open(path()));
    ASSERT_OK_AND_ASSIGN(const auto step, reader->OpenStep(1));
    ExpectHolds(*step, {BulkContent(1)});
    ASSERT_OK_AND_ASSIGN(
        const auto strict,
        Reader::Open(path(), {.leases = StoreOptions::LeaseMode::kRequired}));
    EXPECT_THAT(
        strict->OpenStep(1),
        StatusIs(absl::StatusCode::kPermissionDenied, HasSubstr(leases)));
  }
  chmod(leases.c_str(), 0755);
}

// In a mount namespace of this thread alone. Why that may not be done, if so.
std::string MountReadOnly(const std::string& path) {
  const auto failed = [](const char* what) {
    return absl::StrCat("cannot ", what, ": ", std::strerror(errno));
  };
  if (unshare(CLONE_NEWNS) != 0) return failed("make a mount namespace");
  if (mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0) {
    return failed("make mounts private");
  }
  if (mount(path.c_str(), path.c_str(), nullptr, MS_BIND, nullptr) != 0) {
    return failed("bind");
  }
  constexpr unsigned long kReadOnly = MS_BIND | MS_REMOUNT | MS_RDONLY;
  if (mount(nullptr, path.c_str(), nullptr, kReadOnly, nullptr) != 0) {
    return failed("remount");
  }
  return "";
}

TEST_F(UnleasedReadsTest, AReadOnlyMountIsRead) {
  ASSERT_OK(Save(1, BulkContent(1)));
  store_.reset();
  std::string skipped;
  std::thread in_namespace([&] {
    skipped = MountReadOnly(path());
    if (!skipped.empty()) return;
    ASSERT_OK_AND_ASSIGN(const auto reader, Reader::Open(path()));
    ASSERT_OK_AND_ASSIGN(const auto step, reader->OpenStep(1));
    ExpectHolds(*step, {BulkContent(1)});
    EXPECT_OK(step->Verify());
    EXPECT_FALSE(HasLeases());
    ASSERT_OK_AND_ASSIGN(
        const auto strict,
        Reader::Open(path(), {.leases = StoreOptions::LeaseMode::kRequired}));
    EXPECT_THAT(strict->OpenStep(1),
                StatusIs(absl::StatusCode::kPermissionDenied,
                         HasSubstr(std::strerror(EROFS))));
    EXPECT_THAT(Store::Open(path()),
                StatusIs(absl::StatusCode::kPermissionDenied,
                         HasSubstr(std::strerror(EROFS))));
  });
  in_namespace.join();
  if (!skipped.empty()) GTEST_SKIP() << skipped;
}

}  // namespace
}  // namespace ckptdb::testing
