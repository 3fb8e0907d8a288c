// SPDX-License-Identifier: Apache-2.0
// The contract of ObjectStore, for a folder and for the one of tests.
#include "remote/object_store.h"

#include <sys/stat.h>

#include <array>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/remote/memory_store.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"

namespace ckptdb::testing {
namespace {

namespace fs = std::filesystem;

class ObjectStoreTest : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    if (GetParam() == "memory") {
      store_ = std::make_unique<MemoryStore>();
    } else {
      ASSERT_OK_AND_ASSIGN(store_, OpenObjectStore(url()));
    }
  }
  std::string url() const { return "file://" + folder(); }
  std::string folder() const { return dir_.path() + "/remote/prefix"; }

  std::string Get(const std::string& key, uint64_t offset, size_t bytes) {
    std::string out(bytes, '?');
    EXPECT_OK(store_->Get(key, offset, absl::MakeSpan(out.data(), bytes)));
    return out;
  }
  std::vector<std::string> List(const std::string& prefix,
                                const std::string& after = "",
                                uint64_t limit = 100) {
    std::vector<std::string> keys;
    const auto listed = store_->List(prefix, after, limit);
    EXPECT_OK(listed);
    if (!listed.ok()) return keys;
    for (const ObjectInfo& info : *listed) keys.push_back(info.key);
    return keys;
  }

  TempDir dir_;
  std::unique_ptr<ObjectStore> store_;
};

INSTANTIATE_TEST_SUITE_P(Stores, ObjectStoreTest,
                         ::testing::Values("memory", "folder"),
                         [](const auto& row) { return row.param; });

TEST_P(ObjectStoreTest, KeepsBytesSizeAndToken) {
  ASSERT_OK(store_->PutIfAbsent("a/one", "0123456789", "token"));
  EXPECT_EQ(Get("a/one", 0, 10), "0123456789");
  EXPECT_EQ(Get("a/one", 3, 4), "3456");
  EXPECT_EQ(Get("a/one", 10, 0), "");
  ASSERT_OK_AND_ASSIGN(const ObjectInfo info, store_->Head("a/one"));
  EXPECT_EQ(info.key, "a/one");
  EXPECT_EQ(info.size, 10);
  EXPECT_EQ(info.token, "token");
  ASSERT_OK(store_->PutIfAbsent("empty", "", ""));
  ASSERT_OK_AND_ASSIGN(const ObjectInfo empty, store_->Head("empty"));
  EXPECT_EQ(empty.size, 0);
  EXPECT_EQ(empty.token, "");
}

TEST_P(ObjectStoreTest, RefusesASecondPutUnlessTheTokenIsTheSame) {
  ASSERT_OK(store_->PutIfAbsent("key", "first", "1"));
  EXPECT_THAT(store_->PutIfAbsent("key", "second", "2"), AlreadyExists());
  EXPECT_OK(store_->PutIfAbsent("key", "first", "1"));
  EXPECT_EQ(Get("key", 0, 5), "first");
}

TEST_P(ObjectStoreTest, ReportsMissingObjectsAndRanges) {
  std::array<char, 4> out = {};
  EXPECT_THAT(store_->Get("none", 0, absl::MakeSpan(out)), NotFound());
  EXPECT_THAT(store_->Head("none"), NotFound());
  ASSERT_OK(store_->PutIfAbsent("key", "abc", "1"));
  EXPECT_THAT(store_->Get("key", 0, absl::MakeSpan(out)), DataLoss());
  EXPECT_THAT(store_->Get("key", 4, absl::MakeSpan(out).subspan(0, 0)),
              DataLoss());
  EXPECT_OK(store_->Delete("none"));
}

TEST_P(ObjectStoreTest, ListsInTheOrderOfBytesByPages) {
  for (const char* const key :
       {"a/2/x", "a/1/b", "a/1-1/c", "a/1/B", "b/1/a", "a/10/a"}) {
    ASSERT_OK(store_->PutIfAbsent(key, key, "t"));
  }
  EXPECT_THAT(List("a/"),
              ElementsAre("a/1-1/c", "a/1/B", "a/1/b", "a/10/a", "a/2/x"));
  EXPECT_THAT(List("a/", "a/1/B", 2), ElementsAre("a/1/b", "a/10/a"));
  EXPECT_THAT(List("a/", "a/2/x"), IsEmpty());
  EXPECT_THAT(List("none/"), IsEmpty());
  ASSERT_OK(store_->Delete("a/1/b"));
  EXPECT_THAT(List("a/1/"), ElementsAre("a/1/B"));
}

TEST_P(ObjectStoreTest, PutsAFile) {
  const std::string path = dir_.path() + "/file";
  const std::string bytes(3'000'001, 'x');
  std::ofstream(path, std::ios::binary) << bytes;
  ASSERT_OK(store_->PutFileIfAbsent("data/file", path, "t"));
  EXPECT_EQ(Get("data/file", 0, bytes.size()), bytes);
  EXPECT_THAT(store_->PutFileIfAbsent("data/file", path, "u"), AlreadyExists());
  EXPECT_THAT(store_->PutFileIfAbsent("data/2", path + "2", "u"), NotFound());
  EXPECT_THAT(List("data/"), ElementsAre("data/file"));
}

TEST_P(ObjectStoreTest, LetsOneOfManyRacersWin) {
  constexpr int kRacers = 8;
  std::array<absl::Status, kRacers> results;
  std::vector<std::thread> threads;
  for (int i = 0; i < kRacers; ++i) {
    threads.emplace_back([&, i] {
      results[i] = store_->PutIfAbsent("race/key", absl::StrCat("racer ", i),
                                       absl::StrCat(i));
    });
  }
  for (std::thread& thread : threads) thread.join();
  int winner = -1;
  for (int i = 0; i < kRacers; ++i) {
    if (!results[i].ok()) {
      EXPECT_THAT(results[i], AlreadyExists());
      continue;
    }
    EXPECT_EQ(winner, -1);
    winner = i;
  }
  EXPECT_EQ(Get("race/key", 0, 7), absl::StrCat("racer ", winner));
}

class FolderStoreTest : public ObjectStoreTest {};

INSTANTIATE_TEST_SUITE_P(Folder, FolderStoreTest, ::testing::Values("folder"));

TEST_P(FolderStoreTest, IsCreatedByTheFirstPut) {
  EXPECT_THAT(List("catalog/"), IsEmpty());
  EXPECT_FALSE(fs::exists(folder()));
  ASSERT_OK(store_->PutIfAbsent("format", "x", "t"));
  EXPECT_TRUE(fs::is_regular_file(folder() + "/format"));
  EXPECT_TRUE(fs::is_empty(folder() + "/~uploads"));
}

TEST_P(FolderStoreTest, RefusesFoldersInCheckpointStores) {
  fs::create_directories(folder() + "/db");
  std::ofstream(folder() + "/db/CURRENT") << "MANIFEST-000001\n";
  fs::create_directory_symlink(folder(), folder() + "-link");
  for (const char* end : {"", "/", "/.", "/remote", "/a/b", "-link/remote"}) {
    EXPECT_THAT(OpenObjectStore(url() + end),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         HasSubstr("is a checkpoint store")))
        << end;
  }
  EXPECT_OK(OpenObjectStore(url() + "-beside"));
}

TEST_P(FolderStoreTest, RefusesTheRootFolder) {
  for (const char* const root : {"file:///", "file:////", "file:///tmp/.."}) {
    EXPECT_THAT(OpenObjectStore(root),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         HasSubstr("is the root folder")));
  }
}

TEST_P(FolderStoreTest, GivesObjectsTheModeOfTheFolder) {
  const auto mode = [](const std::string& path) {
    return static_cast<int>(fs::status(path).permissions());
  };
  ASSERT_OK(store_->PutIfAbsent("data/a", "x", "t"));
  EXPECT_EQ(mode(folder()), 0700);
  EXPECT_EQ(mode(folder() + "/data/a"), 0600);
  fs::permissions(folder(), fs::perms(0770));
  ASSERT_OK_AND_ASSIGN(const auto shared, OpenObjectStore(url()));
  ASSERT_OK(shared->PutIfAbsent("versions/a", "x", "t"));
  EXPECT_EQ(mode(folder() + "/versions"), 0770);
  EXPECT_EQ(mode(folder() + "/versions/a"), 0660);
}

TEST_P(FolderStoreTest, RemovesUploadsThatWereCut) {
  ASSERT_OK(store_->PutIfAbsent("data/1/a", "x", "t"));
  for (const char* const name : {"data~1~b~123", "versions~1~b~123"}) {
    std::ofstream(folder() + "/~uploads/" + name) << "cut";
  }
  EXPECT_THAT(List("data/"), ElementsAre("data/1/a"));
  ASSERT_OK(store_->AbortUploads("data/", absl::Now() - absl::Hours(1)));
  EXPECT_TRUE(fs::exists(folder() + "/~uploads/data~1~b~123"));
  ASSERT_OK(store_->AbortUploads("data/", absl::Now() + absl::Hours(1)));
  EXPECT_FALSE(fs::exists(folder() + "/~uploads/data~1~b~123"));
  EXPECT_TRUE(fs::exists(folder() + "/~uploads/versions~1~b~123"));
}

// A FIFO would block a reader, and some file systems and tools leave files
// whose names begin with a dot.
TEST_P(FolderStoreTest, NamesWhatIsNoFile) {
  ASSERT_OK(store_->PutIfAbsent("data/1/a", "x", "t"));
  std::ofstream(folder() + "/data/1/.nfs0001") << "x";
  fs::create_directory(folder() + "/data/.snapshot");
  EXPECT_THAT(List("data/"), ElementsAre("data/1/a"));
  const std::string path = folder() + "/data/1/b";
  ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
  EXPECT_THAT(store_->Head("data/1/b"), DataLoss("data/1/b"));
  std::string out(1, ' ');
  EXPECT_THAT(store_->Get("data/1/b", 0, absl::MakeSpan(out)),
              DataLoss("data/1/b"));
  EXPECT_THAT(store_->PutIfAbsent("data/1/b", "x", "t"), DataLoss("data/1/b"));
  EXPECT_THAT(store_->List("data/", "", 10),
              DataLoss("data/1/b", "neither a file nor a folder"));
  fs::remove(path);
  fs::create_symlink(folder() + "/data/1/a", path);
  EXPECT_THAT(store_->List("data/", "", 10), DataLoss("data/1/b"));
}

TEST_P(FolderStoreTest, NamesAnUploadThatWasRemoved) {
  ASSERT_OK(store_->PutIfAbsent("data/1/a", "x", "t"));
  RemoteOptions options;
  options.bytes_per_second = uint64_t{4} << 20;
  ASSERT_OK_AND_ASSIGN(const auto slow, OpenObjectStore(url(), options));
  std::thread remover([&] {
    while (fs::is_empty(folder() + "/~uploads")) std::this_thread::yield();
    for (const auto& each : fs::directory_iterator(folder() + "/~uploads")) {
      fs::remove(each.path());
    }
  });
  EXPECT_THAT(slow->PutIfAbsent("data/1/b", std::string(3 << 20, 'x'), "t"),
              StatusIs(absl::StatusCode::kAborted, HasSubstr("push again")));
  remover.join();
}

TEST_P(FolderStoreTest, FindsFilesThatAreNoObjects) {
  ASSERT_OK(store_->PutIfAbsent("data/1/a", std::string(500, 'x'), "t"));
  std::ofstream(folder() + "/data/1/b") << std::string(500, 'y');
  EXPECT_THAT(store_->Head("data/1/b"), DataLoss("data/1/b"));
  for (const uintmax_t bytes : {400, 3, 0}) {
    fs::resize_file(folder() + "/data/1/a", bytes);
    EXPECT_THAT(store_->Head("data/1/a"), DataLoss("data/1/a"));
    EXPECT_THAT(List("data/"), ElementsAre("data/1/a", "data/1/b"));
  }
}

TEST_P(FolderStoreTest, RefusesBadKeysTokensAndUrls) {
  for (const char* const key :
       {"", "/a", "a/", "a//b", "../a", "a/~b", "a b"}) {
    EXPECT_THAT(store_->PutIfAbsent(key, "x", "t"), InvalidArgument()) << key;
  }
  EXPECT_OK(store_->PutIfAbsent("a", "x", std::string(64, 't')));
  EXPECT_THAT(store_->PutIfAbsent("b", "x", std::string(65, 't')),
              InvalidArgument("65", "64"));
  for (const char* const bad : {"", "/folder", "file://folder", "ftp://a/b"}) {
    EXPECT_THAT(OpenObjectStore(bad), InvalidArgument("file:///folder")) << bad;
  }
  const std::string file = dir_.path() + "/file";
  std::ofstream(file) << "x";
  EXPECT_THAT(OpenObjectStore("file://" + file), InvalidArgument(file));
  EXPECT_THAT(OpenObjectStore("https://me:secret@host/x").status().message(),
              ::testing::AllOf(::testing::HasSubstr("https://***@host/x"),
                               ::testing::Not(::testing::HasSubstr("secret"))));
}

TEST_P(FolderStoreTest, LimitsItsSpeed) {
  RemoteOptions options;
  options.bytes_per_second = uint64_t{20} << 20;
  ASSERT_OK_AND_ASSIGN(const auto limited, OpenObjectStore(url(), options));
  const auto begin = std::chrono::steady_clock::now();
  ASSERT_OK(limited->PutIfAbsent("a", std::string(4 << 20, 'x'), "t"));
  // The first MiB of four does not wait.
  EXPECT_GE(std::chrono::steady_clock::now() - begin,
            std::chrono::milliseconds(149));
}

TEST_P(FolderStoreTest, IsCancelled) {
  bool cancelled = false;
  RemoteOptions options;
  options.cancelled = [&] { return cancelled; };
  ASSERT_OK_AND_ASSIGN(const auto store, OpenObjectStore(url(), options));
  ASSERT_OK(store->PutIfAbsent("a", "x", "t"));
  cancelled = true;
  EXPECT_THAT(store->PutIfAbsent("b", "x", "t"), Cancelled());
  EXPECT_THAT(store_->Head("b"), NotFound());
  EXPECT_TRUE(fs::is_empty(folder() + "/~uploads"));
}

}  // namespace
}  // namespace ckptdb::testing
