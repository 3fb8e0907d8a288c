// SPDX-License-Identifier: Apache-2.0
// The file calls of SimFileSystem, and its state after a power loss.
#include "tests/support/sim_file_system.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/sim_test_calls.h"

namespace ckptdb::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Optional;

std::string ReadRange(SimFileSystem& fs, const std::string& path,
                      uint64_t offset, size_t n) {
  std::unique_ptr<rocksdb::FSRandomAccessFile> file;
  EXPECT_TRUE(fs.NewRandomAccessFile(path, {}, &file, nullptr).ok());
  std::string scratch(n, '?');
  rocksdb::Slice result;
  EXPECT_TRUE(
      file->Read(offset, n, kIo, &result, scratch.data(), nullptr).ok());
  return result.ToString();
}

TEST(SimFileSystemTest, AppendsOverwritesAndTruncates) {
  SimFileSystem fs;
  auto file = CreateWith(fs, "/a", "hello ");
  ASSERT_TRUE(Append(*file, "world").ok());
  EXPECT_EQ(file->GetFileSize(kIo, nullptr), 11u);
  ASSERT_TRUE(file->PositionedAppend("LO", 3, kIo, nullptr).ok());
  EXPECT_THAT(fs.ReadAll("/a"), Optional(std::string("helLO world")));
  EXPECT_EQ(ReadRange(fs, "/a", 4, 4), "O wo");
  EXPECT_EQ(ReadRange(fs, "/a", 9, 100), "ld");
  EXPECT_EQ(ReadRange(fs, "/a", 11, 1), "");
  ASSERT_TRUE(file->Truncate(2, kIo, nullptr).ok());
  ASSERT_TRUE(file->PositionedAppend("z", 4, kIo, nullptr).ok());
  EXPECT_THAT(fs.ReadAll("/a"), Optional(std::string("he\0\0z", 5)));
  ASSERT_TRUE(file->Close(kIo, nullptr).ok());
  EXPECT_THAT(Append(*file, "x").ToString(), HasSubstr("/a: is closed"));
}

TEST(SimFileSystemTest, SequentialReadsSkip) {
  SimFileSystem fs;
  ASSERT_TRUE(fs.WriteAll("/a", "0123456789"));
  std::unique_ptr<rocksdb::FSSequentialFile> file;
  ASSERT_TRUE(fs.NewSequentialFile("/a", {}, &file, nullptr).ok());
  char scratch[8];
  rocksdb::Slice result;
  ASSERT_TRUE(file->Read(3, kIo, &result, scratch, nullptr).ok());
  EXPECT_EQ(result.ToString(), "012");
  ASSERT_TRUE(file->Skip(4).ok());
  ASSERT_TRUE(file->Read(8, kIo, &result, scratch, nullptr).ok());
  EXPECT_EQ(result.ToString(), "789");
}

TEST(SimFileSystemTest, ReopenAppendsAndReuseOverwrites) {
  SimFileSystem fs;
  ASSERT_TRUE(fs.WriteAll("/a", "abc"));
  std::unique_ptr<rocksdb::FSWritableFile> file;
  ASSERT_TRUE(fs.ReopenWritableFile("/a", {}, &file, nullptr).ok());
  ASSERT_TRUE(Append(*file, "de").ok());
  EXPECT_THAT(fs.ReadAll("/a"), Optional(std::string("abcde")));
  ASSERT_TRUE(fs.ReuseWritableFile("/b", "/a", {}, &file, nullptr).ok());
  ASSERT_TRUE(Append(*file, "XY").ok());
  EXPECT_THAT(fs.ReadAll("/b"), Optional(std::string("XYcde")));
  EXPECT_EQ(fs.ReadAll("/a"), std::nullopt);
  Create(fs, "/b");
  EXPECT_THAT(fs.ReadAll("/b"), Optional(std::string()));
}

TEST(SimFileSystemTest, RandomRWFileWritesInPlace) {
  SimFileSystem fs;
  std::unique_ptr<rocksdb::FSRandomRWFile> file;
  EXPECT_TRUE(fs.NewRandomRWFile("/a", {}, &file, nullptr).IsPathNotFound());
  ASSERT_TRUE(fs.WriteAll("/a", "abc"));
  ASSERT_TRUE(fs.NewRandomRWFile("/a", {}, &file, nullptr).ok());
  ASSERT_TRUE(file->Write(1, "Z", kIo, nullptr).ok());
  EXPECT_THAT(fs.ReadAll("/a"), Optional(std::string("aZc")));
  EXPECT_THAT(Crash(fs, PowerLoss::kDropUnsyncedBytes)->ReadAll("/a"),
              Optional(std::string("abc")));
  ASSERT_TRUE(file->Sync(kIo, nullptr).ok());
  EXPECT_THAT(Crash(fs, PowerLoss::kDropUnsyncedBytes)->ReadAll("/a"),
              Optional(std::string("aZc")));
}

TEST(SimFileSystemTest, LinksShareOneInode) {
  SimFileSystem fs;
  auto file = CreateWith(fs, "/a", "abc");
  ASSERT_TRUE(fs.LinkFile("/a", "/b", kIo, nullptr).ok());
  EXPECT_THAT(fs.LinkFile("/a", "/b", kIo, nullptr).ToString(),
              HasSubstr("/b: exists"));
  uint64_t count = 0;
  ASSERT_TRUE(fs.NumFileLinks("/b", kIo, &count, nullptr).ok());
  EXPECT_EQ(count, 2u);
  bool same = false;
  ASSERT_TRUE(fs.AreFilesSame("/a", "/b", kIo, &same, nullptr).ok());
  EXPECT_TRUE(same);
  ASSERT_TRUE(Append(*file, "d").ok());
  ASSERT_TRUE(fs.DeleteFile("/a", kIo, nullptr).ok());
  EXPECT_THAT(fs.ReadAll("/b"), Optional(std::string("abcd")));
  EXPECT_EQ(fs.TotalBytes(), 4u);
}

TEST(SimFileSystemTest, OpenFileOutlivesItsName) {
  SimFileSystem fs;
  ASSERT_TRUE(fs.WriteAll("/a", "abc"));
  std::unique_ptr<rocksdb::FSRandomAccessFile> file;
  ASSERT_TRUE(fs.NewRandomAccessFile("/a", {}, &file, nullptr).ok());
  ASSERT_TRUE(fs.Remove("/a"));
  EXPECT_EQ(fs.TotalBytes(), 3u);
  char scratch[3];
  rocksdb::Slice result;
  ASSERT_TRUE(file->Read(0, 3, kIo, &result, scratch, nullptr).ok());
  EXPECT_EQ(result.ToString(), "abc");
  file.reset();
  EXPECT_EQ(fs.TotalBytes(), 0u);
}

TEST(SimFileSystemTest, FoldersListRenameAndRefuse) {
  SimFileSystem fs;
  MakeFolder(fs, "/d");
  MakeFolder(fs, "/d/e");
  ASSERT_TRUE(fs.WriteAll("/d//f", "1"));
  ASSERT_TRUE(fs.WriteAll("d/./e/g", "22"));
  std::vector<std::string> names;
  ASSERT_TRUE(fs.GetChildren("/d/", kIo, &names, nullptr).ok());
  EXPECT_THAT(names, ElementsAre("e", "f"));
  EXPECT_THAT(fs.ListFiles("/d"),
              ElementsAre(SimPathSize{"/d/e/g", 2}, SimPathSize{"/d/f", 1}));
  EXPECT_THAT(fs.DeleteDir("/d", kIo, nullptr).ToString(),
              HasSubstr("/d: is not empty"));
  EXPECT_THAT(fs.CreateDir("/d", kIo, nullptr).ToString(),
              HasSubstr("/d: exists"));
  EXPECT_TRUE(fs.CreateDirIfMissing("/d", kIo, nullptr).ok());
  EXPECT_TRUE(fs.GetChildren("/x", kIo, &names, nullptr).IsNotFound());
  EXPECT_TRUE(fs.CreateDir("/x/y", kIo, nullptr).IsPathNotFound());
  ASSERT_TRUE(fs.RenameFile("/d/e", "/d/h", kIo, nullptr).ok());
  EXPECT_TRUE(fs.RenameFile("/d/h", "/h", kIo, nullptr).IsNotSupported());
  EXPECT_THAT(fs.RenameFile("/d/f", "/d/h", kIo, nullptr).ToString(),
              HasSubstr("cannot replace /d/h"));
  bool is_folder = false;
  ASSERT_TRUE(fs.IsDirectory("/d/h", kIo, &is_folder, nullptr).ok());
  EXPECT_TRUE(is_folder);
  ASSERT_TRUE(fs.Remove("/d/h/g"));
  EXPECT_TRUE(fs.DeleteDir("/d/h", kIo, nullptr).ok());
  EXPECT_TRUE(Exists(fs, "/d/h").IsNotFound());
}

TEST(SimFileSystemTest, MissingFilesAreNamed) {
  SimFileSystem fs;
  std::unique_ptr<rocksdb::FSSequentialFile> file;
  const auto status = fs.NewSequentialFile("/no", {}, &file, nullptr);
  EXPECT_TRUE(status.IsPathNotFound());
  EXPECT_THAT(status.ToString(), HasSubstr("/no: no such file"));
  EXPECT_TRUE(fs.DeleteFile("/no", kIo, nullptr).IsPathNotFound());
  EXPECT_TRUE(fs.RenameFile("/no", "/b", kIo, nullptr).IsPathNotFound());
  EXPECT_TRUE(fs.LinkFile("/no", "/b", kIo, nullptr).IsPathNotFound());
  EXPECT_FALSE(fs.Remove("/no"));
  EXPECT_FALSE(fs.TruncateTo("/no", 1));
  EXPECT_FALSE(fs.FlipBit("/no", 0, 0));
}

TEST(SimFileSystemTest, LocksExcludeUntilUnlocked) {
  SimFileSystem fs;
  rocksdb::FileLock* lock = nullptr;
  rocksdb::FileLock* second = nullptr;
  ASSERT_TRUE(fs.LockFile("/LOCK", kIo, &lock, nullptr).ok());
  EXPECT_THAT(fs.LockFile("//LOCK", kIo, &second, nullptr).ToString(),
              HasSubstr("lock hold by current process: //LOCK"));
  ASSERT_TRUE(fs.UnlockFile(lock, kIo, nullptr).ok());
  ASSERT_TRUE(fs.LockFile("/LOCK", kIo, &second, nullptr).ok());
  auto image = Crash(fs, PowerLoss::kKeepAll);
  ASSERT_TRUE(image->LockFile("/LOCK", kIo, &lock, nullptr).ok());
  EXPECT_TRUE(image->UnlockFile(lock, kIo, nullptr).ok());
  EXPECT_TRUE(fs.UnlockFile(second, kIo, nullptr).ok());
}

TEST(SimFileSystemTest, DirectAccessIsDurable) {
  SimFileSystem fs;
  ASSERT_TRUE(fs.WriteAll("/a", "abc"));
  ASSERT_TRUE(fs.FlipBit("/a", 1, 0));
  EXPECT_THAT(fs.ReadAll("/a"), Optional(std::string("acc")));
  EXPECT_FALSE(fs.FlipBit("/a", 3, 0));
  ASSERT_TRUE(fs.TruncateTo("/a", 2));
  EXPECT_THAT(Crash(fs, PowerLoss::kDropBoth)->ReadAll("/a"),
              Optional(std::string("ac")));
  ASSERT_TRUE(fs.Remove("/a"));
  EXPECT_THAT(Paths(*Crash(fs, PowerLoss::kDropBoth)), IsEmpty());
  EXPECT_EQ(fs.calls(), 0u);
}

TEST(SimFileSystemTest, JournalNumbersEveryChange) {
  SimFileSystem fs;
  MakeFolder(fs, "/d");
  auto file = CreateWith(fs, "/d/a", "xy");
  Sync(*file);
  ASSERT_TRUE(file->Close(kIo, nullptr).ok());
  ASSERT_TRUE(fs.RenameFile("/d/a", "/d/b", kIo, nullptr).ok());
  ASSERT_TRUE(fs.LinkFile("/d/b", "/d/c", kIo, nullptr).ok());
  SyncFolder(fs, "/d");
  ASSERT_TRUE(fs.DeleteFile("/d/b", kIo, nullptr).ok());
  ASSERT_TRUE(fs.Truncate("/d/c", 1, kIo, nullptr).ok());
  std::vector<std::string> texts;
  for (size_t k = 0; k < fs.operations(); ++k) {
    texts.push_back(fs.OperationText(k));
  }
  EXPECT_THAT(
      texts,
      ElementsAre("mkdir /d", "create /d/a", "write /d/a offset 0 bytes 2",
                  "sync /d/a", "rename /d/a to /d/b", "link /d/b to /d/c",
                  "sync folder /d", "remove /d/b", "truncate /d/c size 1"));
  EXPECT_EQ(fs.OperationText(9), "end of the journal");
}

TEST(SimFileSystemTest, KeepAllShowsExactlyTheFirstOperations) {
  SimFileSystem fs;
  auto file = CreateWith(fs, "/a", "12");
  ASSERT_TRUE(Append(*file, "34").ok());
  ASSERT_TRUE(fs.RenameFile("/a", "/b", kIo, nullptr).ok());
  const auto at = [&](size_t k) {
    return fs.CrashAfter(k, PowerLoss::kKeepAll);
  };
  EXPECT_THAT(Paths(*at(0)), IsEmpty());
  EXPECT_THAT(at(1)->ReadAll("/a"), Optional(std::string()));
  EXPECT_THAT(at(3)->ReadAll("/a"), Optional(std::string("1234")));
  EXPECT_THAT(at(2)->ReadAll("/a"), Optional(std::string("12")));
  EXPECT_THAT(Paths(*at(4)), ElementsAre("/b"));
  EXPECT_THAT(Paths(*at(100)), ElementsAre("/b"));
}

TEST(SimFileSystemTest, DropUnsyncedBytesKeepsNames) {
  SimFileSystem fs;
  auto a = CreateWith(fs, "/a", "synced");
  Sync(*a);
  ASSERT_TRUE(Append(*a, " lost").ok());
  ASSERT_TRUE(a->RangeSync(0, 11, kIo, nullptr).ok());
  ASSERT_TRUE(a->Flush(kIo, nullptr).ok());
  auto b = CreateWith(fs, "/b", "lost");
  auto image = Crash(fs, PowerLoss::kDropUnsyncedBytes);
  EXPECT_THAT(image->ReadAll("/a"), Optional(std::string("synced")));
  EXPECT_THAT(image->ReadAll("/b"), Optional(std::string()));
  Sync(*a);
  image = Crash(fs, PowerLoss::kDropUnsyncedBytes);
  EXPECT_THAT(image->ReadAll("/a"), Optional(std::string("synced lost")));
}

TEST(SimFileSystemTest, DropUnsyncedBytesUndoesTruncation) {
  SimFileSystem fs;
  ASSERT_TRUE(fs.WriteAll("/a", "synced"));
  Create(fs, "/a");
  EXPECT_THAT(fs.ReadAll("/a"), Optional(std::string()));
  EXPECT_THAT(Crash(fs, PowerLoss::kDropUnsyncedBytes)->ReadAll("/a"),
              Optional(std::string("synced")));
}

TEST(SimFileSystemTest, DropUnsyncedNamesUndoesCreation) {
  SimFileSystem fs;
  MakeFolder(fs, "/d");
  auto file = CreateWith(fs, "/d/a", "abc");
  Sync(*file);
  EXPECT_THAT(Paths(*Crash(fs, PowerLoss::kDropUnsyncedNames)), IsEmpty());
  SyncFolder(fs, "/");
  EXPECT_THAT(Paths(*Crash(fs, PowerLoss::kDropUnsyncedNames)), IsEmpty());
  SyncFolder(fs, "/d");
  EXPECT_THAT(Crash(fs, PowerLoss::kDropUnsyncedNames)->ReadAll("/d/a"),
              Optional(std::string("abc")));
}

TEST(SimFileSystemTest, DropUnsyncedNamesUndoesRenameAndRestoresTheTarget) {
  SimFileSystem fs;
  ASSERT_TRUE(fs.WriteAll("/CURRENT", "old"));
  auto file = CreateWith(fs, "/tmp", "new");
  Sync(*file);
  SyncFolder(fs, "/");
  ASSERT_TRUE(fs.RenameFile("/tmp", "/CURRENT", kIo, nullptr).ok());
  EXPECT_THAT(fs.ReadAll("/CURRENT"), Optional(std::string("new")));
  auto image = Crash(fs, PowerLoss::kDropUnsyncedNames);
  EXPECT_THAT(image->ReadAll("/CURRENT"), Optional(std::string("old")));
  EXPECT_THAT(image->ReadAll("/tmp"), Optional(std::string("new")));
  SyncFolder(fs, "/");
  image = Crash(fs, PowerLoss::kDropUnsyncedNames);
  EXPECT_THAT(image->ReadAll("/CURRENT"), Optional(std::string("new")));
  EXPECT_EQ(image->ReadAll("/tmp"), std::nullopt);
}

TEST(SimFileSystemTest, DropUnsyncedNamesRestoresDeletedNames) {
  SimFileSystem fs;
  ASSERT_TRUE(fs.WriteAll("/a", "abc"));
  std::unique_ptr<rocksdb::FSWritableFile> file;
  ASSERT_TRUE(fs.ReopenWritableFile("/a", {}, &file, nullptr).ok());
  ASSERT_TRUE(Append(*file, " unsynced").ok());
  ASSERT_TRUE(fs.DeleteFile("/a", kIo, nullptr).ok());
  EXPECT_THAT(Crash(fs, PowerLoss::kDropUnsyncedNames)->ReadAll("/a"),
              Optional(std::string("abc")));
  EXPECT_EQ(Crash(fs, PowerLoss::kDropUnsyncedBytes)->ReadAll("/a"),
            std::nullopt);
  SyncFolder(fs, "/");
  EXPECT_EQ(Crash(fs, PowerLoss::kDropUnsyncedNames)->ReadAll("/a"),
            std::nullopt);
}

TEST(SimFileSystemTest, DropUnsyncedNamesRestoresAFolderWithItsFiles) {
  SimFileSystem fs;
  MakeFolder(fs, "/d");
  ASSERT_TRUE(fs.WriteAll("/d/a", "abc"));
  ASSERT_TRUE(fs.DeleteFile("/d/a", kIo, nullptr).ok());
  ASSERT_TRUE(fs.DeleteDir("/d", kIo, nullptr).ok());
  EXPECT_THAT(Paths(*Crash(fs, PowerLoss::kDropUnsyncedNames)),
              ElementsAre("/d/a"));
  SyncFolder(fs, "/");
  auto image = Crash(fs, PowerLoss::kDropUnsyncedNames);
  EXPECT_TRUE(Exists(*image, "/d").IsNotFound());
}

TEST(SimFileSystemTest, UnsyncedFolderIsLostWithoutDurableMkdir) {
  SimFileSystem fs({.durable_mkdir = false});
  MakeFolder(fs, "/d");
  ASSERT_TRUE(fs.WriteAll("/d/a", "abc"));
  EXPECT_TRUE(
      Exists(*Crash(fs, PowerLoss::kDropUnsyncedNames), "/d").IsNotFound());
  SyncFolder(fs, "/");
  EXPECT_THAT(Paths(*Crash(fs, PowerLoss::kDropUnsyncedNames)),
              ElementsAre("/d/a"));
}

TEST(SimFileSystemTest, LinkIsAsDurableAsItsFolder) {
  SimFileSystem fs;
  MakeFolder(fs, "/staging");
  MakeFolder(fs, "/db");
  auto file = CreateWith(fs, "/staging/a", "abc");
  Sync(*file);
  ASSERT_TRUE(fs.LinkFile("/staging/a", "/db/1", kIo, nullptr).ok());
  SyncFolder(fs, "/db");
  EXPECT_THAT(Paths(*Crash(fs, PowerLoss::kDropBoth)), ElementsAre("/db/1"));
}

TEST(SimFileSystemTest, DropBothDropsBoth) {
  SimFileSystem fs;
  auto a = CreateWith(fs, "/a", "kept");
  Sync(*a);
  SyncFolder(fs, "/");
  ASSERT_TRUE(Append(*a, " lost").ok());
  CreateWith(fs, "/b", "lost");
  auto image = Crash(fs, PowerLoss::kDropBoth);
  EXPECT_THAT(Paths(*image), ElementsAre("/a"));
  EXPECT_THAT(image->ReadAll("/a"), Optional(std::string("kept")));
}

TEST(SimFileSystemTest, TornAppendsCutTheUnsyncedTailAnywhere) {
  SimFileSystem fs;
  auto file = CreateWith(fs, "/a", "synced");
  Sync(*file);
  const size_t synced_at = fs.operations();
  std::set<size_t> cuts;
  for (int i = 0; i < 200; ++i) {
    ASSERT_TRUE(Append(*file, "x").ok());
    const auto image = Crash(fs, PowerLoss::kTornAppends);
    const std::string bytes = image->ReadAll("/a").value();
    EXPECT_EQ(bytes, "synced" + std::string(bytes.size() - 6, 'x'));
    EXPECT_LE(bytes.size(), 7u + i);
    EXPECT_EQ(Crash(fs, PowerLoss::kTornAppends)->ImageDigest(),
              image->ImageDigest());
    cuts.insert(bytes.size());
  }
  EXPECT_GT(cuts.size(), 50u);
  EXPECT_THAT(fs.CrashAfter(synced_at, PowerLoss::kTornAppends)->ReadAll("/a"),
              Optional(std::string("synced")));
}

TEST(SimFileSystemTest, TornOverwritesKeepSyncedBytesBeyondTheCut) {
  SimFileSystem fs;
  ASSERT_TRUE(fs.WriteAll("/a", "abcdef"));
  std::unique_ptr<rocksdb::FSRandomRWFile> file;
  ASSERT_TRUE(fs.NewRandomRWFile("/a", {}, &file, nullptr).ok());
  std::set<std::string> seen;
  for (int i = 0; i < 50; ++i) {
    ASSERT_TRUE(file->Write(2, "XY", kIo, nullptr).ok());
    seen.insert(Crash(fs, PowerLoss::kTornAppends)->ReadAll("/a").value());
  }
  EXPECT_THAT(seen,
              ::testing::UnorderedElementsAre("abcdef", "abXdef", "abXYef"));
}

TEST(SimFileSystemTest, GarbageTailIsZeros) {
  SimFileSystem fs;
  auto file = CreateWith(fs, "/a", "abc");
  Sync(*file);
  ASSERT_TRUE(Append(*file, "de").ok());
  EXPECT_THAT(Crash(fs, PowerLoss::kGarbageTail)->ReadAll("/a"),
              Optional(std::string("abc\0\0", 5)));
  EXPECT_THAT(fs.ReadAll("/a"), Optional(std::string("abcde")));
}

TEST(SimFileSystemTest, ImagesAreIndependentAndDurable) {
  SimFileSystem fs;
  auto file = CreateWith(fs, "/a", "abc");
  auto first = Crash(fs, PowerLoss::kKeepAll);
  auto second = Crash(fs, PowerLoss::kKeepAll);
  ASSERT_TRUE(Append(*file, "d").ok());
  std::unique_ptr<rocksdb::FSWritableFile> other;
  ASSERT_TRUE(first->ReopenWritableFile("/a", {}, &other, nullptr).ok());
  ASSERT_TRUE(Append(*other, "X").ok());
  EXPECT_THAT(fs.ReadAll("/a"), Optional(std::string("abcd")));
  EXPECT_THAT(first->ReadAll("/a"), Optional(std::string("abcX")));
  EXPECT_THAT(second->ReadAll("/a"), Optional(std::string("abc")));
  EXPECT_EQ(second->operations(), 0u);
  EXPECT_THAT(Crash(*first, PowerLoss::kDropBoth)->ReadAll("/a"),
              Optional(std::string("abc")));
}

TEST(SimFileSystemTest, DigestCoversOnlyPathsAndBytes) {
  SimFileSystem one;
  SimFileSystem two;
  auto file = CreateWith(one, "/a", "ab");
  ASSERT_TRUE(Append(*file, "cd").ok());
  ASSERT_TRUE(two.WriteAll("/b", "abcd"));
  EXPECT_NE(one.ImageDigest(), two.ImageDigest());
  ASSERT_TRUE(two.RenameFile("/b", "/a", kIo, nullptr).ok());
  EXPECT_EQ(one.ImageDigest(), two.ImageDigest());
  ASSERT_TRUE(two.FlipBit("/a", 3, 7));
  EXPECT_NE(one.ImageDigest(), two.ImageDigest());
  ASSERT_TRUE(two.FlipBit("/a", 3, 7));
  EXPECT_EQ(one.ImageDigest(), two.ImageDigest());
  MakeFolder(two, "/empty");
  EXPECT_NE(one.ImageDigest(), two.ImageDigest());
}

}  // namespace
}  // namespace ckptdb::testing
