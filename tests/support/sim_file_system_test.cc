// SPDX-License-Identifier: Apache-2.0
// The file calls and faults of SimFileSystem, and its state after a power loss.
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/sim_file_system.h"

namespace ckptdb::testing {
namespace {

using enum PowerLoss;
using WritableFile = std::unique_ptr<rocksdb::FSWritableFile>;
using rocksdb::IOStatus;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class SimFileSystemTest : public ::testing::Test {
 protected:
  SimFileSystem fs;  // NOLINT(readability-identifier-naming)
};
class SimFileSystemFaultsTest : public SimFileSystemTest {};

// Short forms of calls. Each expects success unless it returns the status.

const rocksdb::IOOptions kIo;

WritableFile Create(SimFileSystem& fs, const std::string& path) {
  WritableFile file;
  const rocksdb::IOStatus status = fs.NewWritableFile(path, {}, &file, nullptr);
  EXPECT_TRUE(status.ok()) << status.ToString();
  return file;
}

rocksdb::IOStatus Append(rocksdb::FSWritableFile& file,
                         const std::string& bytes) {
  return file.Append(bytes, kIo, nullptr);
}

// Creates a file with unsynced bytes.
WritableFile CreateWith(SimFileSystem& fs, const std::string& path,
                        const std::string& bytes) {
  auto file = Create(fs, path);
  EXPECT_TRUE(Append(*file, bytes).ok());
  return file;
}

void Sync(rocksdb::FSWritableFile& file) {
  EXPECT_TRUE(file.Sync(kIo, nullptr).ok());
}

void SyncFolder(SimFileSystem& fs, const std::string& path) {
  std::unique_ptr<rocksdb::FSDirectory> folder;
  ASSERT_TRUE(fs.NewDirectory(path, kIo, &folder, nullptr).ok());
  EXPECT_TRUE(folder->Fsync(kIo, nullptr).ok());
}

void MakeFolder(SimFileSystem& fs, const std::string& path) {
  EXPECT_TRUE(fs.CreateDir(path, kIo, nullptr).ok());
}

std::vector<std::string> Paths(const SimFileSystem& fs) {
  std::vector<std::string> paths;
  for (const SimPathSize& file : fs.ListFiles("/")) paths.push_back(file.path);
  return paths;
}

std::shared_ptr<SimFileSystem> Crash(const SimFileSystem& fs,
                                     PowerLoss variant) {
  return fs.CrashAfter(fs.operations(), variant);
}

constexpr char kNone[] = "(no file)";

std::string Bytes(const SimFileSystem& fs, const std::string& path) {
  return fs.ReadAll(path).value_or(kNone);
}

std::string ReadRange(const rocksdb::FSRandomAccessFile& file, uint64_t offset,
                      size_t n) {
  std::string scratch(n, '?');
  rocksdb::Slice result;
  EXPECT_TRUE(file.Read(offset, n, kIo, &result, scratch.data(), nullptr).ok());
  return result.ToString();
}

TEST_F(SimFileSystemTest, AppendsOverwritesAndTruncates) {
  auto file = CreateWith(fs, "/a", "hello ");
  ASSERT_TRUE(Append(*file, "world").ok());
  EXPECT_EQ(file->GetFileSize(kIo, nullptr), 11u);
  ASSERT_TRUE(file->PositionedAppend("LO", 3, kIo, nullptr).ok());
  EXPECT_EQ(Bytes(fs, "/a"), "helLO world");
  std::unique_ptr<rocksdb::FSRandomAccessFile> read;
  ASSERT_TRUE(fs.NewRandomAccessFile("/a", {}, &read, nullptr).ok());
  EXPECT_EQ(ReadRange(*read, 4, 4), "O wo");
  EXPECT_EQ(ReadRange(*read, 9, 100), "ld");
  EXPECT_EQ(ReadRange(*read, 11, 1), "");
  ASSERT_TRUE(file->Truncate(2, kIo, nullptr).ok());
  ASSERT_TRUE(file->PositionedAppend("z", 4, kIo, nullptr).ok());
  EXPECT_EQ(Bytes(fs, "/a"), std::string("he\0\0z", 5));
  ASSERT_TRUE(file->Close(kIo, nullptr).ok());
  EXPECT_THAT(Append(*file, "x").ToString(), HasSubstr("/a: is closed"));
}

TEST_F(SimFileSystemTest, SequentialReadsSkip) {
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

TEST_F(SimFileSystemTest, ReopenAppendsAndCreateEmpties) {
  ASSERT_TRUE(fs.WriteAll("/a", "abc"));
  WritableFile file;
  ASSERT_TRUE(fs.ReopenWritableFile("/a", {}, &file, nullptr).ok());
  ASSERT_TRUE(Append(*file, "de").ok());
  EXPECT_EQ(Bytes(fs, "/a"), "abcde");
  Create(fs, "/a");
  EXPECT_EQ(Bytes(fs, "/a"), "");
}

TEST_F(SimFileSystemTest, LinksShareOneInode) {
  auto file = CreateWith(fs, "/a", "abc");
  ASSERT_TRUE(fs.LinkFile("/a", "/b", kIo, nullptr).ok());
  EXPECT_THAT(fs.LinkFile("/a", "/b", kIo, nullptr).ToString(),
              HasSubstr("/b: exists"));
  uint64_t count = 0;
  ASSERT_TRUE(fs.NumFileLinks("/b", kIo, &count, nullptr).ok());
  EXPECT_EQ(count, 2u);
  ASSERT_TRUE(Append(*file, "d").ok());
  ASSERT_TRUE(fs.DeleteFile("/a", kIo, nullptr).ok());
  EXPECT_EQ(Bytes(fs, "/b"), "abcd");
  EXPECT_EQ(fs.TotalBytes(), 4u);
}

TEST_F(SimFileSystemTest, OpenFileOutlivesItsName) {
  ASSERT_TRUE(fs.WriteAll("/a", "abc"));
  std::unique_ptr<rocksdb::FSRandomAccessFile> file;
  ASSERT_TRUE(fs.NewRandomAccessFile("/a", {}, &file, nullptr).ok());
  ASSERT_TRUE(fs.Remove("/a"));
  EXPECT_EQ(fs.TotalBytes(), 3u);
  EXPECT_EQ(ReadRange(*file, 0, 3), "abc");
  file.reset();
  EXPECT_EQ(fs.TotalBytes(), 0u);
}

TEST_F(SimFileSystemTest, FoldersListRenameAndRefuse) {
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
  EXPECT_TRUE(fs.FileExists("/d/h", kIo, nullptr).IsNotFound());
}

TEST_F(SimFileSystemTest, MissingFilesAreNamed) {
  std::unique_ptr<rocksdb::FSSequentialFile> file;
  const auto status = fs.NewSequentialFile("/no", {}, &file, nullptr);
  EXPECT_TRUE(status.IsPathNotFound());
  EXPECT_THAT(status.ToString(), HasSubstr("/no: no such file"));
  EXPECT_TRUE(fs.DeleteFile("/no", kIo, nullptr).IsPathNotFound());
  EXPECT_TRUE(fs.RenameFile("/no", "/b", kIo, nullptr).IsPathNotFound());
  EXPECT_TRUE(fs.LinkFile("/no", "/b", kIo, nullptr).IsPathNotFound());
  EXPECT_FALSE(fs.Remove("/no"));
  EXPECT_FALSE(fs.TruncateTo("/no", 1) || fs.FlipBit("/no", 0, 0));
}

TEST_F(SimFileSystemTest, LocksExcludeUntilUnlocked) {
  rocksdb::FileLock* lock = nullptr;
  rocksdb::FileLock* second = nullptr;
  ASSERT_TRUE(fs.LockFile("/LOCK", kIo, &lock, nullptr).ok());
  EXPECT_THAT(fs.LockFile("//LOCK", kIo, &second, nullptr).ToString(),
              HasSubstr("lock hold by current process: //LOCK"));
  ASSERT_TRUE(fs.UnlockFile(lock, kIo, nullptr).ok());
  ASSERT_TRUE(fs.LockFile("/LOCK", kIo, &second, nullptr).ok());
  auto image = Crash(fs, kKeepAll);
  ASSERT_TRUE(image->LockFile("/LOCK", kIo, &lock, nullptr).ok());
  EXPECT_TRUE(image->UnlockFile(lock, kIo, nullptr).ok());
  EXPECT_TRUE(fs.UnlockFile(second, kIo, nullptr).ok());
}

TEST_F(SimFileSystemTest, DirectAccessIsDurable) {
  ASSERT_TRUE(fs.WriteAll("/a", "abc"));
  ASSERT_TRUE(fs.FlipBit("/a", 1, 0));
  EXPECT_EQ(Bytes(fs, "/a"), "acc");
  EXPECT_FALSE(fs.FlipBit("/a", 3, 0));
  ASSERT_TRUE(fs.TruncateTo("/a", 2));
  EXPECT_EQ(Bytes(*Crash(fs, kDropBoth), "/a"), "ac");
  ASSERT_TRUE(fs.Remove("/a"));
  EXPECT_THAT(Paths(*Crash(fs, kDropBoth)), IsEmpty());
  EXPECT_EQ(fs.calls(), 0u);
}

TEST_F(SimFileSystemTest, JournalNumbersEveryChange) {
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

TEST_F(SimFileSystemTest, KeepAllShowsExactlyTheFirstOperations) {
  auto file = CreateWith(fs, "/a", "12");
  ASSERT_TRUE(Append(*file, "34").ok());
  ASSERT_TRUE(fs.RenameFile("/a", "/b", kIo, nullptr).ok());
  const auto at = [&](size_t k) { return fs.CrashAfter(k, kKeepAll); };
  EXPECT_THAT(Paths(*at(0)), IsEmpty());
  EXPECT_EQ(Bytes(*at(1), "/a"), "");
  EXPECT_EQ(Bytes(*at(3), "/a"), "1234");
  EXPECT_EQ(Bytes(*at(2), "/a"), "12");
  EXPECT_THAT(Paths(*at(4)), ElementsAre("/b"));
  EXPECT_THAT(Paths(*at(100)), ElementsAre("/b"));
}

TEST_F(SimFileSystemTest, DropUnsyncedBytesKeepsNames) {
  auto a = CreateWith(fs, "/a", "synced");
  Sync(*a);
  ASSERT_TRUE(Append(*a, " lost").ok());
  ASSERT_TRUE(a->RangeSync(0, 11, kIo, nullptr).ok());
  ASSERT_TRUE(a->Flush(kIo, nullptr).ok());
  auto b = CreateWith(fs, "/b", "lost");
  auto image = Crash(fs, kDropUnsyncedBytes);
  EXPECT_EQ(Bytes(*image, "/a"), "synced");
  EXPECT_EQ(Bytes(*image, "/b"), "");
  Sync(*a);
  image = Crash(fs, kDropUnsyncedBytes);
  EXPECT_EQ(Bytes(*image, "/a"), "synced lost");
  // Undoes a truncation.
  Create(fs, "/a");
  EXPECT_EQ(Bytes(fs, "/a"), "");
  EXPECT_EQ(Bytes(*Crash(fs, kDropUnsyncedBytes), "/a"), "synced lost");
}

TEST_F(SimFileSystemTest, DropUnsyncedNamesUndoesCreation) {
  MakeFolder(fs, "/d");
  auto file = CreateWith(fs, "/d/a", "abc");
  Sync(*file);
  EXPECT_THAT(Paths(*Crash(fs, kDropUnsyncedNames)), IsEmpty());
  SyncFolder(fs, "/");
  EXPECT_THAT(Paths(*Crash(fs, kDropUnsyncedNames)), IsEmpty());
  SyncFolder(fs, "/d");
  EXPECT_EQ(Bytes(*Crash(fs, kDropUnsyncedNames), "/d/a"), "abc");
}

TEST_F(SimFileSystemTest, DropUnsyncedNamesUndoesRenameAndRestoresTheTarget) {
  ASSERT_TRUE(fs.WriteAll("/CURRENT", "old"));
  auto file = CreateWith(fs, "/tmp", "new");
  Sync(*file);
  SyncFolder(fs, "/");
  ASSERT_TRUE(fs.RenameFile("/tmp", "/CURRENT", kIo, nullptr).ok());
  EXPECT_EQ(Bytes(fs, "/CURRENT"), "new");
  auto image = Crash(fs, kDropUnsyncedNames);
  EXPECT_EQ(Bytes(*image, "/CURRENT"), "old");
  EXPECT_EQ(Bytes(*image, "/tmp"), "new");
  SyncFolder(fs, "/");
  image = Crash(fs, kDropUnsyncedNames);
  EXPECT_EQ(Bytes(*image, "/CURRENT"), "new");
  EXPECT_EQ(Bytes(*image, "/tmp"), kNone);
}

TEST_F(SimFileSystemTest, DropUnsyncedNamesRestoresDeletedNames) {
  ASSERT_TRUE(fs.WriteAll("/a", "abc"));
  WritableFile file;
  ASSERT_TRUE(fs.ReopenWritableFile("/a", {}, &file, nullptr).ok());
  ASSERT_TRUE(Append(*file, " unsynced").ok());
  ASSERT_TRUE(fs.DeleteFile("/a", kIo, nullptr).ok());
  EXPECT_EQ(Bytes(*Crash(fs, kDropUnsyncedNames), "/a"), "abc");
  EXPECT_EQ(Bytes(*Crash(fs, kDropUnsyncedBytes), "/a"), kNone);
  SyncFolder(fs, "/");
  EXPECT_EQ(Bytes(*Crash(fs, kDropUnsyncedNames), "/a"), kNone);
}

TEST_F(SimFileSystemTest, DropUnsyncedNamesRestoresAFolderWithItsFiles) {
  MakeFolder(fs, "/d");
  ASSERT_TRUE(fs.WriteAll("/d/a", "abc"));
  ASSERT_TRUE(fs.DeleteFile("/d/a", kIo, nullptr).ok());
  ASSERT_TRUE(fs.DeleteDir("/d", kIo, nullptr).ok());
  EXPECT_THAT(Paths(*Crash(fs, kDropUnsyncedNames)), ElementsAre("/d/a"));
  SyncFolder(fs, "/");
  auto image = Crash(fs, kDropUnsyncedNames);
  EXPECT_TRUE(image->FileExists("/d", kIo, nullptr).IsNotFound());
}

TEST_F(SimFileSystemTest, LinkIsAsDurableAsItsFolder) {
  MakeFolder(fs, "/staging");
  MakeFolder(fs, "/db");
  auto file = CreateWith(fs, "/staging/a", "abc");
  Sync(*file);
  ASSERT_TRUE(fs.LinkFile("/staging/a", "/db/1", kIo, nullptr).ok());
  SyncFolder(fs, "/db");
  EXPECT_THAT(Paths(*Crash(fs, kDropBoth)), ElementsAre("/db/1"));
}

TEST_F(SimFileSystemTest, DropBothDropsBoth) {
  auto a = CreateWith(fs, "/a", "kept");
  Sync(*a);
  SyncFolder(fs, "/");
  ASSERT_TRUE(Append(*a, " lost").ok());
  CreateWith(fs, "/b", "lost");
  auto image = Crash(fs, kDropBoth);
  EXPECT_THAT(Paths(*image), ElementsAre("/a"));
  EXPECT_EQ(Bytes(*image, "/a"), "kept");
  // Instead, unsynced bytes may be zeros.
  image = Crash(fs, kGarbageTail);
  EXPECT_EQ(Bytes(*image, "/a"), std::string("kept\0\0\0\0\0", 9));
  EXPECT_EQ(Bytes(fs, "/a"), "kept lost");
}

TEST_F(SimFileSystemTest, TornAppendsCutTheUnsyncedTailAnywhere) {
  auto file = CreateWith(fs, "/a", "synced");
  Sync(*file);
  const size_t synced_at = fs.operations();
  std::set<size_t> cuts;
  for (int i = 0; i < 200; ++i) {
    ASSERT_TRUE(Append(*file, "x").ok());
    const auto image = Crash(fs, kTornAppends);
    const std::string bytes = image->ReadAll("/a").value();
    EXPECT_EQ(bytes, "synced" + std::string(bytes.size() - 6, 'x'));
    EXPECT_LE(bytes.size(), 7u + i);
    EXPECT_EQ(Crash(fs, kTornAppends)->ImageDigest(), image->ImageDigest());
    cuts.insert(bytes.size());
  }
  EXPECT_GT(cuts.size(), 50u);
  EXPECT_EQ(Bytes(*fs.CrashAfter(synced_at, kTornAppends), "/a"), "synced");
}

TEST_F(SimFileSystemTest, TornOverwritesKeepSyncedBytesBeyondTheCut) {
  ASSERT_TRUE(fs.WriteAll("/a", "abcdef"));
  WritableFile file;
  ASSERT_TRUE(fs.ReopenWritableFile("/a", {}, &file, nullptr).ok());
  std::set<std::string> seen;
  for (int i = 0; i < 50; ++i) {
    ASSERT_TRUE(file->PositionedAppend("XY", 2, kIo, nullptr).ok());
    seen.insert(Crash(fs, kTornAppends)->ReadAll("/a").value());
  }
  EXPECT_THAT(seen,
              ::testing::UnorderedElementsAre("abcdef", "abXdef", "abXYef"));
}

TEST_F(SimFileSystemTest, ImagesAreIndependentAndDurable) {
  auto file = CreateWith(fs, "/a", "abc");
  auto first = Crash(fs, kKeepAll);
  auto second = Crash(fs, kKeepAll);
  ASSERT_TRUE(Append(*file, "d").ok());
  WritableFile other;
  ASSERT_TRUE(first->ReopenWritableFile("/a", {}, &other, nullptr).ok());
  ASSERT_TRUE(Append(*other, "X").ok());
  EXPECT_EQ(Bytes(fs, "/a"), "abcd");
  EXPECT_EQ(Bytes(*first, "/a"), "abcX");
  EXPECT_EQ(Bytes(*second, "/a"), "abc");
  EXPECT_EQ(second->operations(), 0u);
  EXPECT_EQ(Bytes(*Crash(*first, kDropBoth), "/a"), "abc");
}

TEST_F(SimFileSystemTest, DigestCoversOnlyPathsAndBytes) {
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

// The file "/d/a" (synced, "abc"), opened in all ways.
struct World {
  World() {
    MakeFolder(fs, "/d");
    EXPECT_TRUE(fs.WriteAll("/d/a", "abc"));
    EXPECT_TRUE(fs.ReopenWritableFile("/d/a", {}, &writable, nullptr).ok());
    EXPECT_TRUE(fs.NewSequentialFile("/d/a", {}, &sequential, nullptr).ok());
    EXPECT_TRUE(fs.NewRandomAccessFile("/d/a", {}, &random, nullptr).ok());
    EXPECT_TRUE(fs.NewDirectory("/d", kIo, &folder, nullptr).ok());
  }
  SimFileSystem fs;
  WritableFile writable;
  std::unique_ptr<rocksdb::FSSequentialFile> sequential;
  std::unique_ptr<rocksdb::FSRandomAccessFile> random;
  std::unique_ptr<rocksdb::FSDirectory> folder;
};

struct NamedCall {
  const char* name;
  bool mutates;
  std::function<IOStatus(World&)> call;
};

char scratch[16];
rocksdb::Slice result;
uint64_t number;
std::vector<std::string> names;

#define NAMED_CALL(name, mutates, call)          \
  {                                              \
    name, mutates, [](World& w) { return call; } \
  }
const NamedCall kCalls[] = {
    NAMED_CALL("open sequential", false,
               w.fs.NewSequentialFile("/d/a", {}, &w.sequential, nullptr)),
    NAMED_CALL("open random", false,
               w.fs.NewRandomAccessFile("/d/a", {}, &w.random, nullptr)),
    NAMED_CALL("create", true,
               w.fs.NewWritableFile("/d/b", {}, &w.writable, nullptr)),
    NAMED_CALL("reopen", true,
               w.fs.ReopenWritableFile("/d/a", {}, &w.writable, nullptr)),
    NAMED_CALL("append", true, Append(*w.writable, "x")),
    NAMED_CALL("positioned append", true,
               w.writable->PositionedAppend("x", 0, kIo, nullptr)),
    NAMED_CALL("truncate", true, w.writable->Truncate(1, kIo, nullptr)),
    NAMED_CALL("sync", true, w.writable->Sync(kIo, nullptr)),
    NAMED_CALL("fsync", true, w.writable->Fsync(kIo, nullptr)),
    NAMED_CALL("rename", true, w.fs.RenameFile("/d/a", "/d/b", kIo, nullptr)),
    NAMED_CALL("link", true, w.fs.LinkFile("/d/a", "/d/b", kIo, nullptr)),
    NAMED_CALL("delete", true, w.fs.DeleteFile("/d/a", kIo, nullptr)),
    NAMED_CALL("mkdir", true, w.fs.CreateDir("/e", kIo, nullptr)),
    NAMED_CALL("open folder", false,
               w.fs.NewDirectory("/d", kIo, &w.folder, nullptr)),
    NAMED_CALL("sync folder", true, w.folder->Fsync(kIo, nullptr)),
    NAMED_CALL("sync folder with options", true,
               w.folder->FsyncWithDirOptions(kIo, nullptr, {})),
    NAMED_CALL("read", false,
               w.random->Read(0, 3, kIo, &result, scratch, nullptr)),
    NAMED_CALL("sequential read", false,
               w.sequential->Read(3, kIo, &result, scratch, nullptr)),
    NAMED_CALL("get children", false,
               w.fs.GetChildren("/d", kIo, &names, nullptr)),
    NAMED_CALL("get size", false,
               w.fs.GetFileSize("/d/a", kIo, &number, nullptr)),
    NAMED_CALL("exists", false, w.fs.FileExists("/d/a", kIo, nullptr)),
    NAMED_CALL("free space", false,
               w.fs.GetFreeSpace("/", kIo, &number, nullptr)),
};
#undef NAMED_CALL

TEST_F(SimFileSystemFaultsTest, EveryKindOfCallFailsOnceAndDoesNothing) {
  for (const NamedCall& named : kCalls) {
    SCOPED_TRACE(named.name);
    World world;
    const uint64_t digest = world.fs.ImageDigest();
    const size_t operations = world.fs.operations();
    const uint64_t calls = world.fs.calls();
    world.fs.FailOperation(calls, IOStatus::IOError("injected"), false);
    EXPECT_EQ(named.call(world).ToString(), "IO error: injected");
    EXPECT_EQ(world.fs.calls(), calls + 1);
    EXPECT_EQ(world.fs.failed_calls(), 1u);
    EXPECT_EQ(world.fs.ImageDigest(), digest);
    EXPECT_EQ(world.fs.operations(), operations);
    EXPECT_EQ(named.call(world).ToString(), "OK");
    EXPECT_EQ(world.fs.failed_calls(), 1u);
  }
}

TEST_F(SimFileSystemFaultsTest, StickyFaultFailsOnlyLaterChanges) {
  for (const NamedCall& named : kCalls) {
    SCOPED_TRACE(named.name);
    World world;
    world.fs.FailOperation(world.fs.calls() + 1, IOStatus::IOError("injected"),
                           true);
    EXPECT_TRUE(world.fs.FileExists("/d/a", kIo, nullptr).ok());
    EXPECT_EQ(world.fs.FileExists("/d/a", kIo, nullptr).ToString(),
              "IO error: injected");
    EXPECT_EQ(named.call(world).ok(), !named.mutates);
    world.fs.ClearFault();
    EXPECT_TRUE(named.call(world).ok());
  }
}

TEST_F(SimFileSystemFaultsTest, AnyWriteOfAFileCanFail) {
  for (const bool sticky : {false, true}) {
    SimFileSystem each;
    auto one = CreateWith(each, "/one", "x");
    auto two = CreateWith(each, "/two", "x");
    each.FailWrite("/two", 1, IOStatus::IOError("injected"), sticky);
    EXPECT_TRUE(Append(*two, "y").ok());
    EXPECT_TRUE(Append(*one, "y").ok());
    EXPECT_EQ(each.failed_calls(), 0U);
    EXPECT_FALSE(Append(*two, "z").ok());
    EXPECT_EQ(each.failed_calls(), 1U);
    EXPECT_EQ(Append(*two, "z").ok(), !sticky);
    EXPECT_EQ(Append(*one, "z").ok(), !sticky);
    each.ClearFault();
    EXPECT_TRUE(Append(*two, "z").ok());
  }
}

TEST_F(SimFileSystemFaultsTest, ErrorKeepsItsCodeAndFlags) {
  auto file = Create(fs, "/a");
  IOStatus error = IOStatus::NoSpace("injected");
  error.SetRetryable(true);
  fs.FailOperation(fs.calls(), error, false);
  const IOStatus status = Append(*file, "x");
  EXPECT_TRUE(status.IsNoSpace());
  EXPECT_TRUE(status.GetRetryable());
}

// Returns what GetFreeSpace reports.
uint64_t FreeSpace(SimFileSystem& fs) {
  EXPECT_TRUE(fs.GetFreeSpace("/", kIo, &number, nullptr).ok());
  return number;
}

TEST_F(SimFileSystemFaultsTest, FullDiskWritesWhatFits) {
  auto file = CreateWith(fs, "/a", "12345");
  fs.SetCapacity(8);
  EXPECT_EQ(FreeSpace(fs), 3u);
  const IOStatus status = Append(*file, "6789");
  EXPECT_TRUE(status.IsNoSpace());
  EXPECT_THAT(status.ToString(),
              HasSubstr("/a: capacity 8 bytes, written 3 of 4"));
  EXPECT_EQ(Bytes(fs, "/a"), "12345678");
  EXPECT_EQ(FreeSpace(fs), 0u);
  fs.SetReportedFreeSpace(1000);
  EXPECT_EQ(FreeSpace(fs), 1000u);
  EXPECT_TRUE(file->PositionedAppend("ab", 0, kIo, nullptr).ok());
  EXPECT_TRUE(Append(*Create(fs, "/b"), "x").IsNoSpace());
  fs.SetReportedFreeSpace(std::nullopt);
  EXPECT_EQ(FreeSpace(fs), 0u);
  file.reset();
  ASSERT_TRUE(fs.DeleteFile("/a", kIo, nullptr).ok());
  EXPECT_TRUE(Append(*Create(fs, "/b"), "12345678").ok());
  EXPECT_TRUE(Append(*Create(fs, "/c"), "9").IsNoSpace());
  fs.SetCapacity(std::nullopt);
  EXPECT_TRUE(Append(*Create(fs, "/c"), "9").ok());
}

TEST_F(SimFileSystemFaultsTest, ThreadsShareOneDisk) {
  constexpr int kThreads = 4;
  constexpr int kAppends = 500;
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([this, t] {
      auto file = Create(fs, "/" + std::to_string(t));
      for (int i = 0; i < kAppends; ++i) {
        EXPECT_TRUE(Append(*file, "abcd").ok());
        if (i % 100 == 0) Sync(*file);
        if (i % 100 == 50) Crash(fs, kTornAppends)->ImageDigest();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(fs.TotalBytes(), 4u * kThreads * kAppends);
  EXPECT_EQ(fs.operations(), kThreads * (1u + kAppends + kAppends / 100));
  EXPECT_EQ(Crash(fs, kKeepAll)->ImageDigest(), fs.ImageDigest());
}

}  // namespace
}  // namespace ckptdb::testing
