// SPDX-License-Identifier: Apache-2.0
// Injected errors, full disks and hooks of SimFileSystem.
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/sim_file_system.h"
#include "tests/support/sim_test_calls.h"

namespace ckptdb::testing {
namespace {

using rocksdb::IOStatus;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Optional;

// A call that can fail, and files "/d/a" (synced, "abc") opened in all ways.
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
  std::unique_ptr<rocksdb::FSWritableFile> writable;
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

const NamedCall kCalls[] = {
    {"open sequential", false,
     [](World& w) {
       return w.fs.NewSequentialFile("/d/a", {}, &w.sequential, nullptr);
     }},
    {"open random", false,
     [](World& w) {
       return w.fs.NewRandomAccessFile("/d/a", {}, &w.random, nullptr);
     }},
    {"create", true,
     [](World& w) {
       return w.fs.NewWritableFile("/d/b", {}, &w.writable, nullptr);
     }},
    {"reopen", true,
     [](World& w) {
       return w.fs.ReopenWritableFile("/d/a", {}, &w.writable, nullptr);
     }},
    {"append", true, [](World& w) { return Append(*w.writable, "x"); }},
    {"positioned append", true,
     [](World& w) {
       return w.writable->PositionedAppend("x", 0, kIo, nullptr);
     }},
    {"truncate", true,
     [](World& w) { return w.writable->Truncate(1, kIo, nullptr); }},
    {"sync", true, [](World& w) { return w.writable->Sync(kIo, nullptr); }},
    {"fsync", true, [](World& w) { return w.writable->Fsync(kIo, nullptr); }},
    {"rename", true,
     [](World& w) { return w.fs.RenameFile("/d/a", "/d/b", kIo, nullptr); }},
    {"link", true,
     [](World& w) { return w.fs.LinkFile("/d/a", "/d/b", kIo, nullptr); }},
    {"delete", true,
     [](World& w) { return w.fs.DeleteFile("/d/a", kIo, nullptr); }},
    {"mkdir", true,
     [](World& w) { return w.fs.CreateDir("/e", kIo, nullptr); }},
    {"open folder", false,
     [](World& w) { return w.fs.NewDirectory("/d", kIo, &w.folder, nullptr); }},
    {"sync folder", true,
     [](World& w) { return w.folder->Fsync(kIo, nullptr); }},
    {"sync folder with options", true,
     [](World& w) { return w.folder->FsyncWithDirOptions(kIo, nullptr, {}); }},
    {"read", false,
     [](World& w) {
       return w.random->Read(0, 3, kIo, &result, scratch, nullptr);
     }},
    {"sequential read", false,
     [](World& w) {
       return w.sequential->Read(3, kIo, &result, scratch, nullptr);
     }},
    {"get children", false,
     [](World& w) { return w.fs.GetChildren("/d", kIo, &names, nullptr); }},
    {"get size", false,
     [](World& w) { return w.fs.GetFileSize("/d/a", kIo, &number, nullptr); }},
    {"exists", false, [](World& w) { return Exists(w.fs, "/d/a"); }},
    {"free space", false,
     [](World& w) { return w.fs.GetFreeSpace("/", kIo, &number, nullptr); }},
};

TEST(SimFileSystemFaultsTest, EveryKindOfCallFailsOnceAndDoesNothing) {
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
    const IOStatus again = named.call(world);
    EXPECT_TRUE(again.ok()) << again.ToString();
    EXPECT_EQ(world.fs.failed_calls(), 1u);
  }
}

TEST(SimFileSystemFaultsTest, StickyFaultFailsOnlyLaterChanges) {
  for (const NamedCall& named : kCalls) {
    SCOPED_TRACE(named.name);
    World world;
    world.fs.FailOperation(world.fs.calls() + 1, IOStatus::IOError("injected"),
                           true);
    EXPECT_TRUE(Exists(world.fs, "/d/a").ok());
    EXPECT_EQ(Exists(world.fs, "/d/a").ToString(), "IO error: injected");
    EXPECT_EQ(named.call(world).ok(), !named.mutates);
    world.fs.ClearFault();
    EXPECT_TRUE(named.call(world).ok());
  }
}

TEST(SimFileSystemFaultsTest, AnyWriteOfAFileCanFail) {
  for (const bool sticky : {false, true}) {
    SimFileSystem fs;
    auto one = CreateWith(fs, "/one", "x");
    auto two = CreateWith(fs, "/two", "x");
    fs.FailWrite("/two", 1, IOStatus::IOError("injected"), sticky);
    EXPECT_TRUE(Append(*two, "y").ok());
    EXPECT_TRUE(Append(*one, "y").ok());
    EXPECT_EQ(fs.failed_calls(), 0U);
    EXPECT_FALSE(Append(*two, "z").ok());
    EXPECT_EQ(fs.failed_calls(), 1U);
    EXPECT_EQ(Append(*two, "z").ok(), !sticky);
    EXPECT_EQ(Append(*one, "z").ok(), !sticky);
    fs.ClearFault();
    EXPECT_TRUE(Append(*two, "z").ok());
  }
}

TEST(SimFileSystemFaultsTest, ErrorKeepsItsCodeAndFlags) {
  SimFileSystem fs;
  auto file = Create(fs, "/a");
  IOStatus error = IOStatus::NoSpace("injected");
  error.SetRetryable(true);
  fs.FailOperation(fs.calls(), error, false);
  const IOStatus status = Append(*file, "x");
  EXPECT_TRUE(status.IsNoSpace());
  EXPECT_TRUE(status.GetRetryable());
}

TEST(SimFileSystemFaultsTest, FullDiskWritesWhatFits) {
  SimFileSystem fs;
  auto file = CreateWith(fs, "/a", "12345");
  fs.SetCapacity(8);
  uint64_t free = 0;
  ASSERT_TRUE(fs.GetFreeSpace("/", kIo, &free, nullptr).ok());
  EXPECT_EQ(free, 3u);
  const IOStatus status = Append(*file, "6789");
  EXPECT_TRUE(status.IsNoSpace());
  EXPECT_THAT(status.ToString(),
              HasSubstr("/a: capacity 8 bytes, written 3 of 4"));
  EXPECT_THAT(fs.ReadAll("/a"), Optional(std::string("12345678")));
  ASSERT_TRUE(fs.GetFreeSpace("/", kIo, &free, nullptr).ok());
  EXPECT_EQ(free, 0u);
  EXPECT_TRUE(file->PositionedAppend("ab", 0, kIo, nullptr).ok());
  EXPECT_TRUE(Append(*Create(fs, "/b"), "x").IsNoSpace());
  file.reset();
  ASSERT_TRUE(fs.DeleteFile("/a", kIo, nullptr).ok());
  EXPECT_TRUE(Append(*Create(fs, "/b"), "12345678").ok());
  EXPECT_TRUE(Append(*Create(fs, "/c"), "9").IsNoSpace());
  fs.SetCapacity(std::nullopt);
  EXPECT_TRUE(Append(*Create(fs, "/c"), "9").ok());
}

TEST(SimFileSystemFaultsTest, ReportedFreeSpaceCanBeSet) {
  SimFileSystem fs;
  fs.SetCapacity(4);
  fs.SetReportedFreeSpace(1000);
  uint64_t free = 0;
  ASSERT_TRUE(fs.GetFreeSpace("/", kIo, &free, nullptr).ok());
  EXPECT_EQ(free, 1000u);
  EXPECT_TRUE(Append(*Create(fs, "/a"), "12345").IsNoSpace());
  fs.SetReportedFreeSpace(std::nullopt);
  ASSERT_TRUE(fs.GetFreeSpace("/", kIo, &free, nullptr).ok());
  EXPECT_EQ(free, 0u);
}

TEST(SimFileSystemFaultsTest, HookSeesEveryOperation) {
  SimFileSystem fs;
  std::vector<size_t> seen;
  fs.SetOperationHook([&](size_t k) {
    seen.push_back(k);
    EXPECT_EQ(fs.operations(), k);
  });
  auto file = CreateWith(fs, "/a", "x");
  EXPECT_TRUE(Exists(fs, "/a").ok());
  Sync(*file);
  EXPECT_THAT(seen, ElementsAre(1, 2, 3));
}

TEST(SimFileSystemFaultsTest, ThreadsShareOneDisk) {
  constexpr int kThreads = 4;
  constexpr int kAppends = 500;
  SimFileSystem fs;
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&fs, t] {
      auto file = Create(fs, "/" + std::to_string(t));
      for (int i = 0; i < kAppends; ++i) {
        EXPECT_TRUE(Append(*file, "abcd").ok());
        if (i % 100 == 0) Sync(*file);
        if (i % 100 == 50) Crash(fs, PowerLoss::kTornAppends)->ImageDigest();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(fs.TotalBytes(), 4u * kThreads * kAppends);
  EXPECT_EQ(fs.operations(), kThreads * (1u + kAppends + kAppends / 100));
  EXPECT_EQ(Crash(fs, PowerLoss::kKeepAll)->ImageDigest(), fs.ImageDigest());
}

}  // namespace
}  // namespace ckptdb::testing
