// SPDX-License-Identifier: Apache-2.0
#include "db/disk/disk_file_system.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>

#include "db/disk/disk_folder.h"
#include "db/disk/environment.h"
#include "db/disk/files.h"
#include "db/disk/rocks_status.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"

namespace ckptdb::internal {
namespace {

namespace fs = std::filesystem;

using ::ckptdb::testing::FailedPrecondition;
using ::ckptdb::testing::ResourceExhausted;
using ::testing::HasSubstr;
using ::testing::UnorderedElementsAre;

class DiskFileSystemTest : public ::testing::Test {
 protected:
  DiskFileSystemTest() : files_(rocksdb::FileSystem::Default()) {
    fs::create_directories(In("folder/below"));
    std::ofstream(In("folder/file")) << "bytes";
    fs::create_directory_symlink("folder", In("link"));
    fs::create_symlink("folder/file", In("file_link"));
    EXPECT_EQ(mkfifo(In("fifo").c_str(), 0600), 0);
  }
  std::string In(const std::string& name) const {
    return dir_.path() + "/" + name;
  }
  ckptdb::testing::TempDir dir_;
  DiskFileSystem files_;
  const rocksdb::IOOptions io_;
};

TEST_F(DiskFileSystemTest, BothWaysToOpenAFolderAgree) {
  for (const std::string& path :
       {In("folder"), In("folder/below"), In("folder//below/"),
        In("folder/../folder/below"), In("link"), In("link/below"),
        In("folder/file"), In("folder/none/below"), In("fifo"),
        std::string("."), std::string("/")}) {
    Descriptor one;
    Descriptor other;
    const auto status = OpenFolder(path, &one);
    EXPECT_EQ(status.ToString(), OpenFolderByParts(path, &other).ToString());
    EXPECT_EQ(status.ok(), path.find("link") == std::string::npos &&
                               path.find("file") == std::string::npos &&
                               path.find("none") == std::string::npos &&
                               path.find("fifo") == std::string::npos)
        << path << " " << status.ToString();
    if (!status.ok()) continue;
    struct stat first {};
    struct stat second {};
    ASSERT_EQ(fstat(one.get(), &first), 0);
    ASSERT_EQ(fstat(other.get(), &second), 0);
    EXPECT_EQ(first.st_ino, second.st_ino) << path;
  }
}

TEST_F(DiskFileSystemTest, TheFirstLinkOnTheWayIsNamed) {
  Descriptor folder;
  EXPECT_THAT(OpenFolder(In("link/below/deeper"), &folder).ToString(),
              HasSubstr("\"" + In("link") + "\" is a symbolic link"));
}

TEST_F(DiskFileSystemTest, LooksAtLinksThemselves) {
  Entry entry;
  for (const auto& [name, kind] : {std::pair{"file_link", EntryKind::kLink},
                                   {"link", EntryKind::kLink},
                                   {"fifo", EntryKind::kOther},
                                   {"folder/file", EntryKind::kFile}}) {
    ASSERT_TRUE(DiskFileSystem::LookAt(In(name), &entry).ok());
    EXPECT_EQ(entry.kind, kind) << name;
  }
  EXPECT_EQ(entry.bytes, 5u);
  EXPECT_TRUE(DiskFileSystem::LookAt(In("none"), &entry).IsPathNotFound());
  bool folder = true;
  ASSERT_TRUE(files_.IsDirectory(In("link"), io_, &folder, nullptr).ok());
  EXPECT_FALSE(folder);
}

TEST_F(DiskFileSystemTest, NothingIsOpenedThroughALinkNorAFifo) {
  for (const char* name : {"file_link", "fifo", "link/file"}) {
    const auto expect_refused = [&](const rocksdb::IOStatus& status) {
      EXPECT_THAT(status.ToString(), HasSubstr(kNotAStoreEntry)) << name;
    };
    const rocksdb::FileOptions options;
    std::unique_ptr<rocksdb::FSSequentialFile> sequential;
    std::unique_ptr<rocksdb::FSRandomAccessFile> random;
    std::unique_ptr<rocksdb::FSRandomRWFile> random_writable;
    std::unique_ptr<rocksdb::FSWritableFile> writable;
    std::unique_ptr<rocksdb::MemoryMappedFileBuffer> mapped;
    rocksdb::FileLock* lock = nullptr;
    uint64_t bytes = 0;
    const std::string path = In(name);
    expect_refused(
        files_.NewSequentialFile(path, options, &sequential, nullptr));
    expect_refused(files_.NewRandomAccessFile(path, options, &random, nullptr));
    expect_refused(
        files_.NewRandomRWFile(path, options, &random_writable, nullptr));
    expect_refused(
        files_.ReopenWritableFile(path, options, &writable, nullptr));
    expect_refused(files_.NewMemoryMappedFileBuffer(path, &mapped));
    expect_refused(files_.Truncate(path, 0, io_, nullptr));
    expect_refused(files_.LinkFile(path, In("new"), io_, nullptr));
    expect_refused(files_.GetFileSize(path, io_, &bytes, nullptr));
    expect_refused(files_.LockFile(path, io_, &lock, nullptr));
  }
  EXPECT_FALSE(fs::exists(In("new")));
}

TEST_F(DiskFileSystemTest, AFileIsMadeInPlaceOfALink) {
  fs::create_hard_link(In("folder/file"), In("hard"));
  for (const char* name : {"file_link", "fifo", "hard", "new"}) {
    std::unique_ptr<rocksdb::FSWritableFile> file;
    ASSERT_TRUE(
        files_.NewWritableFile(In(name), rocksdb::FileOptions(), &file, nullptr)
            .ok());
    ASSERT_TRUE(file->Append("other", io_, nullptr).ok());
    ASSERT_TRUE(file->Close(io_, nullptr).ok());
    EXPECT_TRUE(fs::is_regular_file(fs::symlink_status(In(name)))) << name;
    EXPECT_EQ(*ReadFile(&files_, In("folder/file")), "bytes") << name;
    EXPECT_EQ(*ReadFile(&files_, In(name)), "other") << name;
  }
}

TEST_F(DiskFileSystemTest, AFolderIsNotMadeNorListedThroughALink) {
  std::vector<std::string> names;
  for (const rocksdb::IOStatus& status :
       {files_.GetChildren(In("link"), io_, &names, nullptr),
        files_.CreateDirIfMissing(In("link"), io_, nullptr),
        files_.CreateDir(In("link/new"), io_, nullptr),
        files_.DeleteFile(In("link/file"), io_, nullptr),
        files_.RenameFile(In("folder/file"), In("link/new"), io_, nullptr)}) {
    EXPECT_THAT(status.ToString(), HasSubstr("symbolic link"));
  }
  ASSERT_TRUE(files_.GetChildren(In("folder"), io_, &names, nullptr).ok());
  EXPECT_THAT(names, UnorderedElementsAre(".", "..", "below", "file"));
}

TEST_F(DiskFileSystemTest, AReadIsBounded) {
  EXPECT_EQ(*ReadFile(&files_, In("folder/file"), 5), "bytes");
  EXPECT_THAT(ReadFile(&files_, In("folder/file"), 4),
              FailedPrecondition("has more than 4 bytes"));
}

TEST_F(DiskFileSystemTest, AQuotaIsAFullDisk) {
  for (const int error : {ENOSPC, EDQUOT}) {
    const rocksdb::IOStatus full = DiskError("linking", "/a", error);
    EXPECT_TRUE(full.IsNoSpace()) << full.ToString();
    EXPECT_THAT(FromRocks(full, "ingesting"),
                ResourceExhausted(std::strerror(error)));
  }
}

TEST_F(DiskFileSystemTest, FreeSpaceIsWhatAUserMayStillWrite) {
  struct statvfs volume {};
  ASSERT_EQ(statvfs(dir_.path().c_str(), &volume), 0);
  uint64_t bytes = 0;
  ASSERT_TRUE(files_.GetFreeSpace(dir_.path(), io_, &bytes, nullptr).ok());
  const uint64_t available = uint64_t{volume.f_bavail} * volume.f_frsize;
  // Others write there meanwhile.
  constexpr uint64_t kOthers = uint64_t{1} << 30;
  EXPECT_LT(bytes, available + kOthers);
  EXPECT_GT(bytes + kOthers, available);
  if (volume.f_bfree - volume.f_bavail > 2 * kOthers / volume.f_frsize) {
    EXPECT_LT(bytes, uint64_t{volume.f_bfree} * volume.f_frsize - kOthers);
  }
}

}  // namespace
}  // namespace ckptdb::internal
