// SPDX-License-Identifier: Apache-2.0
// Readers where no lease can be written: read-only mounts, other users' stores,
// full disks.
#include <rocksdb/file_system.h>

#include "tests/db/store_fixture.h"
#include "tests/support/as_nobody.h"
#include "tests/support/name_space.h"

namespace ckptdb::testing {
namespace {

// Refuses leases, and reads of data, with the errors that it is told.
class RefusingFiles : public rocksdb::FileSystemWrapper {
 public:
  using FileSystemWrapper::FileSystemWrapper;
  const char* Name() const override { return "RefusingFiles"; }
  rocksdb::IOStatus NewWritableFile(
      const std::string& path, const rocksdb::FileOptions& options,
      std::unique_ptr<rocksdb::FSWritableFile>* file,
      rocksdb::IODebugContext* debug) override {
    if (absl::StrContains(path, "/leases/") && !lease_error.ok())
      return lease_error;
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
  // Makes all open files fail as if another host had removed them.
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
      if (number_ < *gone_below_)
        return rocksdb::IOStatus::IOError(std::strerror(ESTALE));
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

using LeaseMode = StoreOptions::LeaseMode;

class UnleasedReadsTest : public SweptFixture {
 protected:
  UnleasedReadsTest() {
    options_.directory_mode = 0755;
    options_.file_mode = 0644;
    reading_.environment = EnvironmentOf(files_);
    reading_.direct_reads = false;
  }
  std::unique_ptr<Reader> OpenReader(LeaseMode leases) {
    reading_.leases = leases;
    return Reader::Open(path(), reading_).value();
  }
  void ExpectDenied(const std::string& words) {
    ASSERT_OK_AND_ASSIGN(
        const auto strict,
        Reader::Open(path(), {.leases = LeaseMode::kRequired}));
    EXPECT_THAT(strict->OpenStep(1), PermissionDenied(words));
  }
  bool HasLeases() const {
    return !std::filesystem::is_empty(path() + "/leases");
  }
  const std::shared_ptr<RefusingFiles> files_ = OnDisk<RefusingFiles>();
  StoreOptions reading_;
};

TEST_F(UnleasedReadsTest, ALeaseIsWrittenWherePossible) {
  EXPECT_EQ(StoreOptions().leases, LeaseMode::kWherePossible);
  SaveSmall({1});
  for (const LeaseMode mode :
       {LeaseMode::kWherePossible, LeaseMode::kRequired, LeaseMode::kNone}) {
    const auto reader = OpenReader(mode);
    ASSERT_OK_AND_ASSIGN(const auto step, reader->OpenStep(1));
    EXPECT_EQ(HasLeases(), mode != LeaseMode::kNone);
    ExpectHolds(*step, {SmallContent(1)});
  }
}

TEST_F(UnleasedReadsTest, AStepIsReadWhereNoLeaseCanBeWritten) {
  ASSERT_OK(Save(1, BulkContent(1)));
  for (const rocksdb::IOStatus& error :
       {rocksdb::IOStatus::IOError(std::strerror(EROFS)),
        rocksdb::IOStatus::IOError(std::strerror(EACCES)),
        rocksdb::IOStatus::NoSpace(std::strerror(ENOSPC))}) {
    SCOPED_TRACE(error.ToString());
    files_->lease_error = error;
    const auto reader = OpenReader(LeaseMode::kWherePossible);
    ExpectHolds(*reader->OpenStep(1).value(), {BulkContent(1)});
    EXPECT_THAT(OpenReader(LeaseMode::kRequired)->OpenStep(1),
                PermissionDenied("cannot lease step 1", path() + "/leases"));
  }
  // A disk that fails otherwise is no reason to go without.
  files_->lease_error = rocksdb::IOStatus::IOError(std::strerror(EIO));
  EXPECT_THAT(OpenReader(LeaseMode::kWherePossible)->OpenStep(1),
              PermissionDenied(std::strerror(EIO)));
}

TEST_F(UnleasedReadsTest, AbortsWhenFilesAreRemoved) {
  ASSERT_OK(Save(1, BulkContent(1)));
  ASSERT_OK(Save(2, BulkContent(2)));
  files_->lease_error = rocksdb::IOStatus::IOError(std::strerror(EROFS));
  const auto reader = OpenReader(LeaseMode::kWherePossible);
  ASSERT_OK_AND_ASSIGN(const auto removed, reader->OpenStep(1));
  ASSERT_OK_AND_ASSIGN(const auto kept, reader->OpenStep(2));
  ASSERT_OK(store_->Delete(1));
  ASSERT_OK(store_->Sweep());
  files_->LoseOpenFiles();
  const auto is_removed =
      Aborted("step 1 was removed while it was read without a lease",
              std::strerror(EROFS), std::strerror(ESTALE));
  EXPECT_THAT(removed->Verify(), is_removed);
  EXPECT_THAT(removed->ReadBlob(0, "reader"), is_removed);
  EXPECT_THAT(removed->LookupRow("user", 1), is_removed);
  std::string bytes(size_t{9} << 20, '\0');
  EXPECT_THAT(removed->ReadTensor("bulk", bytes.data(), bytes.size()),
              is_removed);
  EXPECT_THAT(removed->ReadTensors({{"bulk", bytes.data(), bytes.size()}}),
              is_removed);
  const std::vector<int64_t> ids = {1};
  bool found = false;
  EXPECT_THAT(removed->LookupRows("user", ids, {}, {}, &found), is_removed);
  // A step that exists reports the original error.
  EXPECT_THAT(kept->Verify(),
              Unavailable(std::strerror(ESTALE), Not(HasSubstr("removed"))));
}

TEST_F(UnleasedReadsTest, AStepThatWasOverwrittenIsAborted) {
  ASSERT_OK(Save(1, BulkContent(1)));
  const auto reader = OpenReader(LeaseMode::kNone);
  ASSERT_OK_AND_ASSIGN(const auto step, reader->OpenStep(1));
  ASSERT_OK(Overwrite(1, BulkContent(2)));
  ASSERT_OK(store_->Sweep());
  files_->LoseOpenFiles();
  EXPECT_THAT(step->Verify(), Aborted("without a lease: "));
  ExpectHolds(*reader->OpenStep(1).value(), {BulkContent(2)});
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
    ExpectHolds(*reader->OpenStep(1).value(), {BulkContent(1)});
    ExpectDenied(leases);
  }
  chmod(leases.c_str(), 0755);
}

absl::Status MountReadOnly(const std::string& path) {
  CKPTDB_RETURN_IF_ERROR(EnterNameSpace());
  CKPTDB_RETURN_IF_ERROR(BindFolder(path, path));
  constexpr unsigned long kReadOnly = MS_BIND | MS_REMOUNT | MS_RDONLY;
  return mount(nullptr, path.c_str(), nullptr, kReadOnly, nullptr) == 0
             ? absl::OkStatus()
             : CannotMount(path);
}

TEST_F(UnleasedReadsTest, AReadOnlyMountIsRead) {
  ASSERT_OK(Save(1, BulkContent(1)));
  store_.reset();
  absl::Status mounted;
  std::thread in_namespace([&] {
    mounted = MountReadOnly(path());
    if (!mounted.ok()) return;
    ASSERT_OK_AND_ASSIGN(const auto reader, Reader::Open(path()));
    ASSERT_OK_AND_ASSIGN(const auto step, reader->OpenStep(1));
    ExpectHolds(*step, {BulkContent(1)});
    EXPECT_OK(step->Verify());
    EXPECT_FALSE(HasLeases());
    ExpectDenied(std::strerror(EROFS));
    EXPECT_THAT(Store::Open(path()), PermissionDenied(std::strerror(EROFS)));
  });
  in_namespace.join();
  if (!mounted.ok()) GTEST_SKIP() << mounted;
}

}  // namespace
}  // namespace ckptdb::testing
