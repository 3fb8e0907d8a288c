// SPDX-License-Identifier: Apache-2.0
// What a sweep cannot remove holds nothing else up, and is told.
#include <fcntl.h>
#include <sys/mount.h>

#include <cerrno>

#include "db/disk/files.h"
#include "db/meta/lease.h"
#include "db/options.h"
#include "schema/records/records.h"
#include "tests/db/store_fixture.h"

namespace ckptdb::testing {
namespace {

namespace fs = std::filesystem;

constexpr char kUuid[] = "01234567-89ab-cdef-0123-456789abcdef";

MATCHER_P3(IsUnswept, path, reason, foreign, "") {
  return arg.path == path && arg.foreign == foreign &&
         arg.reason.find(reason) != std::string::npos;
}

// Refuses to remove what has `kStuck` in its path, as for an immutable file.
class KeepsSome : public rocksdb::FileSystemWrapper {
 public:
  using FileSystemWrapper::FileSystemWrapper;
  const char* Name() const override { return "KeepsSome"; }
  rocksdb::IOStatus DeleteFile(const std::string& path,
                               const rocksdb::IOOptions& options,
                               rocksdb::IODebugContext* debug) override {
    if (path.find("stuck") != std::string::npos ||
        path.find(kUuid) != std::string::npos) {
      return rocksdb::IOStatus::IOError(path, std::strerror(EPERM));
    }
    return target()->DeleteFile(path, options, debug);
  }
};

class UnsweptTest : public SweptFixture {
 protected:
  void KeepSome() {
    options_.environment = EnvironmentOf(OnDisk<KeepsSome>());
    Reopen();
  }
  static void MakeOld(const std::string& file) {
    fs::last_write_time(
        file, fs::file_time_type::clock::now() -
                  std::chrono::seconds(internal::kTemporarySeconds + 60));
  }
  // Step 1 was saved and deleted.
  void ExpectGone(const Store::SweepResult& swept) const {
    EXPECT_EQ(swept.swept_versions.size(), 1u);
    EXPECT_LT(UsageNow().disk_bytes,
              options_.spare_bytes + (uint64_t{4} << 20));
    EXPECT_OK(store_->sweep_status());
  }
};

TEST_F(UnsweptTest, AFileThatCannotBeRemovedIsPassedOver) {
  KeepSome();
  ASSERT_OK(Save(1, BulkContent(1)));
  fs::create_directories(In("staging/70/0"));
  WriteFile(In("staging/70/0/stuck"), "immutable");
  WriteFile(In("staging/70/0/other"), "not immutable");
  fs::create_directories(In("staging/71"));
  WriteFile(In(absl::StrCat("leases/", kUuid)), "expired, and immutable");
  ASSERT_OK(store_->Delete(1));
  ASSERT_OK_AND_ASSIGN(const Store::SweepResult swept, store_->Sweep());
  ExpectGone(swept);
  EXPECT_FALSE(fs::exists(In("staging/70/0/other")));
  EXPECT_FALSE(fs::exists(In("staging/71")));
  const auto both = ElementsAre(
      IsUnswept(absl::StrCat("leases/", kUuid), "not permitted", false),
      IsUnswept("staging/70", "not permitted", false));
  EXPECT_THAT(swept.unswept, both);
  EXPECT_THAT(store_->unswept(), both);
  fs::rename(In("staging/70/0/stuck"), In("staging/70/0/loose"));
  fs::remove(In(absl::StrCat("leases/", kUuid)));
  ASSERT_OK(store_->Sweep());
  EXPECT_THAT(store_->unswept(), IsEmpty());
  EXPECT_TRUE(fs::is_empty(In("staging")));
}

TEST_F(UnsweptTest, ABackgroundSweepTellsOfItToo) {
  KeepSome();
  fs::create_directories(In("staging/70"));
  WriteFile(In("staging/70/stuck"), "immutable");
  PointCount sweeps(point::kSweepMarked);
  options_.background_sweep = true;
  options_.on_point = sweeps.hook();
  Reopen();
  ASSERT_TRUE(sweeps.WaitFor(1));
  // The next one begins when that one has ended.
  SaveSmall({1});
  ASSERT_TRUE(sweeps.WaitFor(2));
  EXPECT_THAT(store_->unswept(),
              ElementsAre(IsUnswept("staging/70", "not permitted", false)));
  EXPECT_OK(store_->sweep_status());
  store_.reset();
}

TEST_F(UnsweptTest, WhatIsNotTheStoresStaysAndIsTold) {
  ASSERT_OK(Save(1, BulkContent(1)));
  fs::create_directories(In("staging/mine/below"));
  WriteFile(In("staging/mine/below/file"), "mine");
  WriteFile(In("leases/notes.txt"), "mine");
  WriteFile(In("notes.txt"), "mine");
  ASSERT_OK(store_->Delete(1));
  ASSERT_OK_AND_ASSIGN(const Store::SweepResult swept, store_->Sweep());
  ExpectGone(swept);
  EXPECT_TRUE(fs::exists(In("staging/mine/below/file")));
  EXPECT_TRUE(fs::exists(In("leases/notes.txt")));
  EXPECT_THAT(
      swept.unswept,
      ElementsAre(IsUnswept("leases/notes.txt", "it is not a lease", true),
                  IsUnswept("staging/mine",
                            "it is not the staging folder of a save", true)));
  const Usage usage = UsageNow();
  EXPECT_EQ(usage.foreign_bytes, 12u);
  EXPECT_THAT(usage.unswept,
              ElementsAre(IsUnswept("leases/notes.txt", "", true),
                          IsUnswept("notes.txt", "", true),
                          IsUnswept("staging/mine", "", true)));
}

TEST_F(UnsweptTest, AFolderOfAnotherUserIsPassedOver) {
  ASSERT_OK(Save(1, BulkContent(1)));
  fs::create_directories(In("staging/1/0"));
  WriteFile(In("staging/1/0/file"), "of another user");
  ASSERT_OK(store_->Delete(1));
  store_.reset();
  constexpr uid_t kNobody = 65534;
  const uid_t user = geteuid();
  if (user != 0) GTEST_SKIP() << "only root may become another user";
  for (const auto& entry : fs::recursive_directory_iterator(dir_.path())) {
    if (entry.path().string().find("/staging/1") != std::string::npos) continue;
    ASSERT_EQ(lchown(entry.path().c_str(), kNobody, kNobody), 0);
  }
  ASSERT_EQ(chmod(dir_.path().c_str(), 0755), 0);
  ASSERT_EQ(chmod(In("staging/1/0").c_str(), 0), 0);
  if (seteuid(kNobody) != 0) GTEST_SKIP() << "cannot become nobody";
  const auto opened = Store::Open(path(), options_);
  absl::StatusOr<Store::SweepResult> swept = absl::UnknownError("not open");
  absl::StatusOr<Usage> usage = absl::UnknownError("not open");
  if (opened.ok()) {
    swept = (*opened)->Sweep();
    usage = (*opened)->GetUsage();
  }
  ASSERT_EQ(seteuid(user), 0);
  ASSERT_OK(opened);
  ASSERT_OK(swept);
  EXPECT_EQ(swept->swept_versions.size(), 1u);
  EXPECT_THAT(swept->unswept,
              ElementsAre(IsUnswept("staging/1", "Permission denied", false)));
  ASSERT_OK(usage);
  EXPECT_THAT(
      usage->unswept,
      ElementsAre(IsUnswept("staging/1", "no save in progress", false),
                  IsUnswept("staging/1/0", "Permission denied", false)));
}

TEST_F(UnsweptTest, AMountPointIsPassedOverWithWhatIsInIt) {
  fs::create_directories(dir_.path() + "/mounted");
  WriteFile(dir_.path() + "/mounted/file", "of another file system");
  fs::create_directories(In("staging/70/0"));
  const std::string at = In("staging/70/0");
  if (mount((dir_.path() + "/mounted").c_str(), at.c_str(), nullptr, MS_BIND,
            nullptr) != 0) {
    GTEST_SKIP() << "no mounts here: " << std::strerror(errno);
  }
  const auto swept = store_->Sweep();
  const bool kept = fs::exists(at + "/file");
  ASSERT_EQ(umount(at.c_str()), 0);
  ASSERT_OK(swept);
  EXPECT_TRUE(kept);
  EXPECT_THAT(swept->unswept,
              ElementsAre(IsUnswept("staging/70", "mount point", false)));
  ASSERT_OK(store_->Sweep());
  EXPECT_THAT(store_->unswept(), IsEmpty());
}

TEST_F(UnsweptTest, TemporaryFilesOfTheDeadAreSwept) {
  const std::vector<std::string> names = {
      "OWNER.tmp", "WATERMARK.0123456789abcdef.tmp", "db/OPTIONS-000004.dbtmp",
      absl::StrCat("leases/", kUuid, ".tmp"),
      absl::StrCat("leases/", kUuid, ".0123456789abcdef.tmp")};
  for (const std::string& name : names) WriteFile(In(name), "cut short");
  // Somebody may be writing them.
  ASSERT_OK(store_->Sweep());
  for (const std::string& name : names) {
    EXPECT_TRUE(fs::exists(In(name))) << name;
    MakeOld(In(name));
  }
  ASSERT_OK_AND_ASSIGN(const Store::SweepResult swept, store_->Sweep());
  for (const std::string& name : names)
    EXPECT_FALSE(fs::exists(In(name))) << name;
  EXPECT_THAT(swept.unswept, IsEmpty());
}

TEST_F(UnsweptTest, ALeaseFromAClockFarAheadIsSwept) {
  ASSERT_OK_AND_ASSIGN(const SaveResult saved, Save(1, BulkContent(1)));
  const auto& files = internal::Environment::Default()->file_system();
  constexpr int64_t kLongestMicros = (kMaxLeaseMs + kMaxClockSkewMs) * 1000;
  constexpr int64_t kMinuteMicros = 60'000'000;
  Lease lease{kUuid, 1, {saved.version}, 0};
  lease.expires_at_micros = internal::Environment::Default()->NowMicros() +
                            kLongestMicros - kMinuteMicros;
  ASSERT_OK(internal::WriteLease(files.get(), path(), lease));
  ASSERT_OK(store_->Delete(1));
  EXPECT_THAT(Swept(), IsEmpty());
  lease.expires_at_micros += 2 * kMinuteMicros;
  ASSERT_OK(internal::WriteLease(files.get(), path(), lease));
  EXPECT_THAT(Swept(), ElementsAre(saved.version));
  EXPECT_TRUE(fs::is_empty(In("leases")));
}

// The parts of disk_bytes, and the files themselves, each once.
TEST_F(UnsweptTest, UsageAccountsForEachByte) {
  ASSERT_OK(Save(1, BulkContent(1)));
  ASSERT_OK(Save(2, SmallContent(2)));
  fs::create_directories(In("staging/70/0"));
  WriteFile(In("staging/70/0/000000.sst"), std::string(1000, 'x'));
  fs::create_hard_link(In("staging/70/0/000000.sst"),
                       In("staging/70/0/000001.sst"));
  WriteFile(In("db/notes.txt"), std::string(100, 'x'));
  fs::create_symlink(In("db"), In("staging/70/link"));
  ASSERT_OK_AND_ASSIGN(const Usage usage, store_->GetUsage());
  uint64_t bytes = 0;
  for (const auto& entry : fs::recursive_directory_iterator(path())) {
    if (entry.is_symlink() || !entry.is_regular_file()) continue;
    bytes += entry.file_size() / entry.hard_link_count();
  }
  EXPECT_EQ(usage.disk_bytes, bytes);
  EXPECT_EQ(usage.staging_bytes, 1000u);
  EXPECT_EQ(usage.foreign_bytes, 100u);
  EXPECT_EQ(usage.database_bytes + usage.staging_bytes + usage.control_bytes +
                usage.spare_bytes + usage.foreign_bytes,
            usage.disk_bytes);
  uint64_t known = 0;
  for (const Usage::Step& step : usage.steps) known += step.exclusive_bytes;
  EXPECT_GT(usage.overhead_bytes(), 0u);
  EXPECT_EQ(known + usage.overhead_bytes(), usage.database_bytes);
}

TEST_F(UnsweptTest, RemovalBesideAWriterIsNoPermissionToStop) {
  // Somebody adds a file each time that the folder is about to go.
  class AddsAFile : public rocksdb::FileSystemWrapper {
   public:
    using FileSystemWrapper::FileSystemWrapper;
    const char* Name() const override { return "AddsAFile"; }
    rocksdb::IOStatus DeleteDir(const std::string& path,
                                const rocksdb::IOOptions& options,
                                rocksdb::IODebugContext* debug) override {
      if (times-- > 0) std::ofstream(path + "/added") << "once more";
      return target()->DeleteDir(path, options, debug);
    }
    int times = 1;
  } files(internal::Environment::Default()->file_system());
  const std::string folder = dir_.path() + "/folder";
  fs::create_directory(folder);
  EXPECT_OK(internal::RemoveTree(&files, folder));
  EXPECT_FALSE(fs::exists(folder));
  files.times = 100;
  fs::create_directory(folder);
  EXPECT_THAT(internal::RemoveTree(&files, folder),
              Unavailable("still being written to"));
}

}  // namespace
}  // namespace ckptdb::testing
