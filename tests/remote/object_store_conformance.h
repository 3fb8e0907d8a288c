// SPDX-License-Identifier: Apache-2.0
// Tests that every ObjectStore must pass. A program that tests one includes
// this file once, and names the stores:
//
//   INSTANTIATE_TEST_SUITE_P(
//       Folder, ObjectStoreConformance,
//       Values(StoreUnderTest{.open = [](const RemoteOptions& options) {
//         return OpenObjectStore("file:///tmp/x", options);
//       }}));
//
// `open` returns a store with no object below the folders that the tests use,
// each of which has a random name. Unavailable skips the test with its message:
// a service that cannot be started here.
#ifndef CKPTDB_TESTS_REMOTE_OBJECT_STORE_CONFORMANCE_H_
#define CKPTDB_TESTS_REMOTE_OBJECT_STORE_CONFORMANCE_H_

#include <array>
#include <atomic>
#include <fstream>
#include <random>

#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "db/base/uuid.h"
#include "remote/object_store.h"
#include "remote/probe/probe_object_store.h"
#include "tests/support/on_threads.h"
#include "tests/support/temp_dir.h"
#include "tests/support/test.h"

namespace ckptdb::testing {

struct StoreUnderTest {
  std::function<absl::StatusOr<std::unique_ptr<ObjectStore>>(
      const RemoteOptions&)>
      open;
  // More than fits in one request of the store, if it has such a limit.
  uint64_t large_bytes = (uint64_t{17} << 20) + 1;
  // False for a service that checks the condition of a large put, but not in
  // one step with the write.
  bool decides_large_races = true;
};

// Returns bytes of which no two parts are alike.
inline std::string RandomBytes(uint64_t count, uint32_t seed = 1) {
  std::mt19937 random(seed);
  std::string bytes(count, '\0');
  for (char& byte : bytes) byte = static_cast<char>(random());
  return bytes;
}

inline std::vector<std::string> KeysOf(const std::vector<ObjectInfo>& objects) {
  std::vector<std::string> keys;
  for (const ObjectInfo& object : objects) keys.push_back(object.key);
  return keys;
}

class ObjectStoreConformance : public ::testing::TestWithParam<StoreUnderTest> {
 protected:
  void SetUp() override {
    absl::StatusOr<std::unique_ptr<ObjectStore>> opened = GetParam().open({});
    if (absl::IsUnavailable(opened.status())) {
      GTEST_SKIP() << opened.status().message();
    }
    ASSERT_OK(opened);
    store_ = *std::move(opened);
    folder_ = internal::NewUuid();
  }

  std::string Key(const std::string& name) const {
    return absl::StrCat(folder_, "/", name);
  }
  std::string Prefix() const { return folder_ + "/"; }

  std::string File(const std::string& bytes) {
    const std::string path = absl::StrCat(dir_.path(), "/file", files_++);
    std::ofstream(path, std::ios::binary) << bytes;
    return path;
  }

  absl::StatusOr<std::string> Read(const std::string& key, uint64_t offset,
                                   uint64_t count) {
    std::string out(count, '\0');
    const absl::Status status =
        store_->Get(key, offset, absl::MakeSpan(out.data(), out.size()));
    if (!status.ok()) return status;
    return out;
  }

  void ExpectObject(const std::string& key, const std::string& bytes,
                    const std::string& token) {
    ASSERT_OK_AND_ASSIGN(const ObjectInfo info, store_->Head(key));
    EXPECT_EQ(info.key, key);
    EXPECT_EQ(info.size, bytes.size());
    EXPECT_EQ(info.token, token);
    ASSERT_OK_AND_ASSIGN(const std::string read, Read(key, 0, bytes.size()));
    EXPECT_TRUE(read == bytes) << key;
  }

  TempDir dir_;
  int files_ = 0;
  std::unique_ptr<ObjectStore> store_;
  std::string folder_;
};

TEST_P(ObjectStoreConformance, ReadsWhatWasPut) {
  const std::string bytes = RandomBytes(10'000);
  ASSERT_OK(store_->PutIfAbsent(Key("a"), bytes, "t1"));
  ExpectObject(Key("a"), bytes, "t1");
  EXPECT_THAT(Read(Key("a"), 0, 1).value(), bytes.substr(0, 1));
  EXPECT_THAT(Read(Key("a"), 5, 100).value(), bytes.substr(5, 100));
  EXPECT_THAT(Read(Key("a"), 9'999, 1).value(), bytes.substr(9'999));
}

TEST_P(ObjectStoreConformance, PutsEmptyObjectsAndFiles) {
  ASSERT_OK(store_->PutIfAbsent(Key("a"), "", "t1"));
  ExpectObject(Key("a"), "", "t1");
  ASSERT_OK(store_->PutFileIfAbsent(Key("b"), File(""), "t2"));
  ExpectObject(Key("b"), "", "t2");
}

TEST_P(ObjectStoreConformance, KeepsTheFirstOfTwoPuts) {
  ASSERT_OK(store_->PutIfAbsent(Key("a"), "first", "t1"));
  EXPECT_THAT(store_->PutIfAbsent(Key("a"), "second", "t2"),
              AlreadyExists(Key("a")));
  EXPECT_THAT(store_->PutFileIfAbsent(Key("a"), File("third"), "t3"),
              AlreadyExists(Key("a")));
  ExpectObject(Key("a"), "first", "t1");
}

TEST_P(ObjectStoreConformance, RepeatsAPutWithItsToken) {
  ASSERT_OK(store_->PutIfAbsent(Key("a"), "first", "t1"));
  EXPECT_OK(store_->PutIfAbsent(Key("a"), "first", "t1"));
  const std::string path = File("file");
  ASSERT_OK(store_->PutFileIfAbsent(Key("b"), path, "t2"));
  EXPECT_OK(store_->PutFileIfAbsent(Key("b"), path, "t2"));
}

TEST_P(ObjectStoreConformance, PutsLargeFiles) {
  const std::string bytes = RandomBytes(GetParam().large_bytes);
  const std::string path = File(bytes);
  ASSERT_OK(store_->PutFileIfAbsent(Key("a"), path, "t1"));
  ExpectObject(Key("a"), bytes, "t1");
  const uint64_t middle = bytes.size() / 2;
  EXPECT_TRUE(Read(Key("a"), middle, 1000).value() ==
              bytes.substr(middle, 1000));
  EXPECT_OK(store_->PutFileIfAbsent(Key("a"), path, "t1"));
  EXPECT_THAT(store_->PutFileIfAbsent(Key("a"), path, "t2"),
              AlreadyExists(Key("a")));
  EXPECT_THAT(store_->PutIfAbsent(Key("a"), "small", "t3"),
              AlreadyExists(Key("a")));
}

TEST_P(ObjectStoreConformance, LetsOneOfManyPutsWin) {
  constexpr uint32_t kPuts = 16;
  std::vector<absl::Status> results(kPuts);
  RunOnThreads(kPuts, [&](uint32_t i) {
    results[i] = store_->PutIfAbsent(Key("a"), absl::StrCat("bytes", i),
                                     absl::StrCat("t", i));
  });
  int winner = -1;
  for (uint32_t i = 0; i < kPuts; ++i) {
    if (!results[i].ok()) {
      EXPECT_THAT(results[i], AlreadyExists());
      continue;
    }
    EXPECT_EQ(winner, -1) << i;
    winner = static_cast<int>(i);
  }
  ASSERT_GE(winner, 0);
  ExpectObject(Key("a"), absl::StrCat("bytes", winner),
               absl::StrCat("t", winner));
}

TEST_P(ObjectStoreConformance, LetsOneOfTwoLargePutsWin) {
  if (!GetParam().decides_large_races) {
    GTEST_SKIP() << "the service lets both of two puts at a time succeed";
  }
  const std::array<std::string, 2> bytes = {
      RandomBytes(GetParam().large_bytes, 1),
      RandomBytes(GetParam().large_bytes, 2)};
  const std::array<std::string, 2> paths = {File(bytes[0]), File(bytes[1])};
  std::array<absl::Status, 2> results;
  RunOnThreads(2, [&](uint32_t i) {
    results[i] =
        store_->PutFileIfAbsent(Key("a"), paths[i], absl::StrCat("t", i));
  });
  const size_t winner = results[0].ok() ? 0 : 1;
  EXPECT_OK(results[winner]);
  EXPECT_THAT(results[1 - winner], AlreadyExists());
  ExpectObject(Key("a"), bytes[winner], absl::StrCat("t", winner));
}

TEST_P(ObjectStoreConformance, FindsNoMissingObject) {
  EXPECT_THAT(store_->Head(Key("a")), NotFound(Key("a")));
  EXPECT_THAT(Read(Key("a"), 0, 10), NotFound(Key("a")));
  EXPECT_THAT(Read(Key("a"), 0, 0), NotFound(Key("a")));
  // A folder of objects is not an object.
  ASSERT_OK(store_->PutIfAbsent(Key("b/c"), "x", "t1"));
  EXPECT_FALSE(store_->Head(Key("b")).ok());
}

TEST_P(ObjectStoreConformance, ReportsReadsBeyondTheEnd) {
  ASSERT_OK(store_->PutIfAbsent(Key("a"), "0123456789", "t1"));
  EXPECT_THAT(Read(Key("a"), 0, 11), DataLoss());
  EXPECT_THAT(Read(Key("a"), 9, 2), DataLoss());
  EXPECT_THAT(Read(Key("a"), 10, 1), DataLoss());
  EXPECT_THAT(Read(Key("a"), 1000, 1), DataLoss());
  EXPECT_THAT(Read(Key("a"), 9, 1).value(), "9");
}

TEST_P(ObjectStoreConformance, ListsInOrderFromAKey) {
  std::vector<std::string> keys;
  for (int i = 0; i < 12; ++i) {
    keys.push_back(Key(absl::StrFormat("in/%04d/x", i)));
  }
  for (const int i : {7, 3, 11, 0, 5, 1, 9, 2, 10, 4, 8, 6}) {
    ASSERT_OK(store_->PutIfAbsent(keys[size_t(i)], std::string(size_t(i), 'x'),
                                  "t1"));
  }
  ASSERT_OK(store_->PutIfAbsent(Key("io/0000/x"), "", "t2"));
  ASSERT_OK(store_->PutIfAbsent(Key("im/0000/x"), "", "t3"));

  ASSERT_OK_AND_ASSIGN(const std::vector<ObjectInfo> all,
                       store_->List(Key("in/"), "", 100));
  EXPECT_THAT(KeysOf(all), ElementsAreArray(keys));
  for (size_t i = 0; i < all.size(); ++i) EXPECT_EQ(all[i].size, i);
  ASSERT_OK_AND_ASSIGN(const std::vector<ObjectInfo> first,
                       store_->List(Key("in/"), "", 5));
  EXPECT_THAT(KeysOf(first), ElementsAreArray(keys.begin(), keys.begin() + 5));
  ASSERT_OK_AND_ASSIGN(const std::vector<ObjectInfo> next,
                       store_->List(Key("in/"), keys[4], 5));
  EXPECT_THAT(KeysOf(next),
              ElementsAreArray(keys.begin() + 5, keys.begin() + 10));
  ASSERT_OK_AND_ASSIGN(const std::vector<ObjectInfo> last,
                       store_->List(Key("in/"), keys[9], 5));
  EXPECT_THAT(KeysOf(last), ElementsAreArray(keys.begin() + 10, keys.end()));
  // A key that does not exist.
  ASSERT_OK_AND_ASSIGN(const std::vector<ObjectInfo> between,
                       store_->List(Key("in/"), Key("in/0009/y"), 5));
  EXPECT_THAT(KeysOf(between), ElementsAreArray(keys.begin() + 10, keys.end()));
  EXPECT_THAT(store_->List(Key("in/"), keys[11], 5).value(), IsEmpty());
  EXPECT_THAT(store_->List(Key("absent/"), "", 5).value(), IsEmpty());
  EXPECT_THAT(store_->List(Key("in/"), "", 0).value(), IsEmpty());
}

TEST_P(ObjectStoreConformance, NotesWhenObjectsWereWritten) {
  const absl::Time before = absl::Now();
  ASSERT_OK(store_->PutIfAbsent(Key("a"), "x", "t1"));
  ASSERT_OK_AND_ASSIGN(const ObjectInfo info, store_->Head(Key("a")));
  ASSERT_OK_AND_ASSIGN(const std::vector<ObjectInfo> listed,
                       store_->List(Prefix(), "", 1));
  ASSERT_THAT(listed, SizeIs(1));
  // Services round to seconds.
  for (const absl::Time modified : {info.modified, listed[0].modified}) {
    EXPECT_GT(modified, before - absl::Seconds(3));
    EXPECT_LT(modified, absl::Now() + absl::Seconds(3));
  }
}

TEST_P(ObjectStoreConformance, Deletes) {
  ASSERT_OK(store_->PutIfAbsent(Key("a"), "x", "t1"));
  ASSERT_OK(store_->PutIfAbsent(Key("b"), "y", "t2"));
  EXPECT_OK(store_->Delete(Key("a")));
  EXPECT_OK(store_->Delete(Key("a")));
  EXPECT_THAT(store_->Head(Key("a")), NotFound());
  EXPECT_THAT(KeysOf(store_->List(Prefix(), "", 10).value()),
              ElementsAre(Key("b")));
  EXPECT_OK(store_->PutIfAbsent(Key("a"), "z", "t3"));
  ExpectObject(Key("a"), "z", "t3");
}

TEST_P(ObjectStoreConformance, AbortsUploadsButNoObjects) {
  const std::string bytes = RandomBytes(GetParam().large_bytes);
  ASSERT_OK(store_->PutFileIfAbsent(Key("a"), File(bytes), "t1"));
  EXPECT_OK(store_->AbortUploads(Prefix(), absl::Now() + absl::Hours(1)));
  ExpectObject(Key("a"), bytes, "t1");
}

TEST_P(ObjectStoreConformance, RefusesOtherKeys) {
  for (const char* key :
       {"", "/a", "a/", "a//b", ".", "a/../b", "a b", "ä", "a\nb", "a%2fb"}) {
    EXPECT_THAT(store_->PutIfAbsent(key, "x", "t1"), InvalidArgument()) << key;
    EXPECT_THAT(store_->Head(key), InvalidArgument()) << key;
    EXPECT_THAT(store_->Delete(key), InvalidArgument()) << key;
  }
}

TEST_P(ObjectStoreConformance, ServesSeveralThreads) {
  RunOnThreads(8, [&](uint32_t i) {
    for (int n = 0; n < 4; ++n) {
      const std::string key = Key(absl::StrCat("t", i, "-", n));
      const std::string bytes = RandomBytes(1000 + i, i);
      EXPECT_OK(store_->PutIfAbsent(key, bytes, "t1"));
      const absl::StatusOr<std::string> read = Read(key, 0, bytes.size());
      EXPECT_TRUE(read.ok() && *read == bytes) << read.status();
    }
  });
  EXPECT_THAT(store_->List(Prefix(), "", 100).value(), SizeIs(32));
}

TEST_P(ObjectStoreConformance, IsCancelled) {
  std::atomic<bool> cancelled = false;
  RemoteOptions options;
  options.cancelled = [&] { return cancelled.load(); };
  ASSERT_OK_AND_ASSIGN(const std::unique_ptr<ObjectStore> store,
                       GetParam().open(options));
  const std::string path = File(RandomBytes(GetParam().large_bytes));
  ASSERT_OK(store->PutIfAbsent(Key("a"), "0123456789", "t1"));
  cancelled = true;
  EXPECT_THAT(store->PutIfAbsent(Key("b"), "x", "t1"), Cancelled());
  EXPECT_THAT(store->PutFileIfAbsent(Key("c"), path, "t1"), Cancelled());
  std::string out(10, '\0');
  EXPECT_THAT(store->Get(Key("a"), 0, absl::MakeSpan(out.data(), out.size())),
              Cancelled());
  cancelled = false;
  EXPECT_OK(store->Get(Key("a"), 0, absl::MakeSpan(out.data(), out.size())));
}

TEST_P(ObjectStoreConformance, PassesTheProbe) {
  EXPECT_OK(internal::ProbeObjectStore(*store_));
  EXPECT_THAT(store_->List("probe/", "", 10).value(), IsEmpty());
}

}  // namespace ckptdb::testing

#endif  // CKPTDB_TESTS_REMOTE_OBJECT_STORE_CONFORMANCE_H_
