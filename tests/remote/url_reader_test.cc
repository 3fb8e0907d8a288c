// SPDX-License-Identifier: Apache-2.0
// Readers of a remote: the same contents as in the store, with few requests.
#include <atomic>
#include <cstdint>
#include <filesystem>
#include <future>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "db/base/url_stores.h"
#include "db/reader.h"
#include "db/store.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "remote/ranges/ranged_objects.h"
#include "remote/read/remote_url_store.h"
#include "remote/remote_store.h"
#include "remote/urls.h"
#include "tests/remote/memory_store.h"
#include "tests/remote/row_trainer.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"
#include "tests/tools/sample_store.h"

namespace ckptdb::testing {
namespace {

using internal::OutsideTable;
using internal::RangedObjects;

constexpr char kUrl[] = "s3://bucket/prefix";

class UrlReaderTest : public ::testing::Test {
 protected:
  void SetUp() override { Enable({}); }
  void TearDown() override { internal::SetUrlFunctions({}); }

  // Opens kUrl from memory.
  void Enable(const UrlOptions& options) {
    internal::SetUrlFunctions({.open = [this, options](absl::string_view url) {
      EXPECT_EQ(url, kUrl);
      return internal::OpenRemoteUrlStore(remote_, options);
    }});
  }
  std::string path() const { return dir_.path() + "/store"; }
  void Make(
      absl::StatusOr<std::unique_ptr<Store>> (*make)(const std::string&)) {
    ASSERT_OK_AND_ASSIGN(store_, make(path()));
    Push();
  }
  void Push() { ASSERT_OK(PushStore(path(), remote_.get())); }
  std::unique_ptr<Reader> Open() {
    auto reader = Reader::Open(kUrl);
    EXPECT_OK(reader);
    return reader.ok() ? *std::move(reader) : nullptr;
  }
  absl::Status SaveSmall(int64_t step) {
    RankState state;
    state.AddTensor("w", TensorView::Of(small_.data(), {2}));
    return store_->Save({.step = step}, state).status();
  }
  static std::vector<int64_t> StepsOf(const Reader& reader) {
    std::vector<int64_t> steps;
    for (const StepRecord& record : reader.Steps()) {
      steps.push_back(record.version.step);
    }
    return steps;
  }
  int Gets(const std::string& kind) { return remote_->calls()["get " + kind]; }
  // Digests of records cover all bytes, which Verify compares with them.
  void ExpectSameSteps() {
    const auto reader = Open();
    ASSERT_NE(reader, nullptr);
    ASSERT_OK_AND_ASSIGN(const auto expected, Reader::Open(path()));
    EXPECT_EQ(reader->uuid(), expected->uuid());
    EXPECT_EQ(reader->user_metadata(), expected->user_metadata());
    EXPECT_EQ(StepsOf(*reader), StepsOf(*expected));
    for (const int64_t step : StepsOf(*expected)) {
      SCOPED_TRACE(step);
      ASSERT_OK_AND_ASSIGN(const auto want, expected->FindRanks(step));
      ASSERT_OK_AND_ASSIGN(const auto got, reader->FindRanks(step));
      EXPECT_EQ(got, want);
      ASSERT_OK_AND_ASSIGN(const auto opened, reader->OpenStep(step));
      EXPECT_OK(opened->Verify());
    }
  }
  std::string& LargestObject() {
    auto largest = remote_->objects().begin();
    for (auto it = largest; it != remote_->objects().end(); ++it) {
      if (it->second.bytes.size() > largest->second.bytes.size()) largest = it;
    }
    return largest->second.bytes;
  }

  TempDir dir_;
  const std::vector<float> small_ = {1, 2};
  std::unique_ptr<Store> store_;
  const std::shared_ptr<MemoryStore> remote_ = std::make_shared<MemoryStore>();
};

TEST_F(UrlReaderTest, ReadsFullSteps) {
  Make(MakeSampleStore);
  ExpectSameSteps();
}

TEST_F(UrlReaderTest, ReadsDeltaSteps) {
  Make(MakeDeltaStore);
  ExpectSameSteps();
}

TEST_F(UrlReaderTest, ReadsDeltaStepsOnDataFiles) {
  Make(MakeBigDeltaStore);
  ExpectSameSteps();
}

TEST_F(UrlReaderTest, ReadsOnlyTheBlocksOfARow) {
  Make(MakeBigDeltaStore);
  remote_->calls().clear();
  const auto reader = Open();
  ASSERT_NE(reader, nullptr);
  EXPECT_EQ(remote_->calls()["list"], 1);
  EXPECT_EQ(remote_->calls()["get"], 4);  // a catalog and three versions
  ASSERT_OK_AND_ASSIGN(const auto step, reader->OpenStep(200));
  EXPECT_EQ(remote_->calls()["get"], 4);
  ASSERT_OK_AND_ASSIGN(const auto row, step->LookupRow("t", 19'999));
  ASSERT_OK_AND_ASSIGN(const auto own, store_->OpenStep(200));
  EXPECT_EQ(row, own->LookupRow("t", 19'999).value());
  EXPECT_LE(remote_->calls()["get"], 4 + 8);
  EXPECT_EQ(remote_->calls()["list"], 1);
}

// Counts rows, on several threads.
class Counter : public RowSink {
 public:
  absl::Status Consume(int /*worker*/, const Batch& batch) override {
    rows_ += batch.ids.size();
    return absl::OkStatus();
  }
  uint64_t rows() const { return rows_; }

 private:
  std::atomic<uint64_t> rows_ = 0;
};

// Counts changed rows.
class ChangeCounter : public LiveTable {
 public:
  absl::Status Clear() override { return absl::OkStatus(); }
  absl::Status Consume(int /*worker*/, const Batch& batch) override {
    changed_ += batch.ids.size();
    return absl::OkStatus();
  }
  absl::Status Erase(int /*worker*/, absl::Span<const int64_t> ids) override {
    erased_ += ids.size();
    return absl::OkStatus();
  }
  uint64_t changed() const { return changed_; }
  uint64_t erased() const { return erased_; }

 private:
  std::atomic<uint64_t> changed_ = 0;
  std::atomic<uint64_t> erased_ = 0;
};

// A server that follows a URL reads only the delta's own data object, and once.
TEST_F(UrlReaderTest, FollowsByChanges) {
  ASSERT_OK_AND_ASSIGN(store_, Store::Open(path()));
  RowTrainer trainer(store_.get());
  ASSERT_OK(trainer.SaveFull(1));
  ASSERT_OK(trainer.SaveDelta(2));
  Push();
  const auto reader = Open();
  ASSERT_NE(reader, nullptr);
  ASSERT_OK_AND_ASSIGN(const StepRecord held, reader->FindStep(2));
  ASSERT_OK(trainer.SaveDelta(3));
  Push();
  std::string own;
  for (const auto& [key, object] : remote_->objects()) {
    if (absl::StartsWith(key, "data/") && absl::StrContains(key, "3-")) {
      own = key;
    }
  }
  remote_->calls().clear();
  remote_->set_before([&](absl::string_view call, absl::string_view key) {
    const bool data = call == "get" && absl::StartsWith(key, "data/");
    EXPECT_TRUE(!data || key == own) << key;
    return absl::OkStatus();
  });
  ASSERT_OK(reader->Refresh());
  EXPECT_EQ(Gets("versions"), 1);
  ASSERT_OK_AND_ASSIGN(const auto changes,
                       reader->OpenChanges(held.version, 3));
  EXPECT_TRUE(changes->forwards());
  ChangeCounter counter;
  ASSERT_OK(changes->ScanTable("t", {}, &counter));
  EXPECT_EQ(counter.changed(), RowTrainer::kChanged);
  EXPECT_EQ(counter.erased(), 1);
  EXPECT_LE(Gets("data"), 8);
  remote_->set_before(nullptr);
}

TEST_F(UrlReaderTest, ScansWithLargeRequestsOnManyThreads) {
  Make(MakeBigDeltaStore);
  const auto reader = Open();
  ASSERT_NE(reader, nullptr);
  ASSERT_OK_AND_ASSIGN(const auto step, reader->OpenStep(200));
  remote_->calls().clear();
  Counter counter;
  ScanOptions options;
  options.read.threads = 1;
  ASSERT_OK(step->ScanTable("t", options, &counter));
  EXPECT_EQ(counter.rows(), 19'999);
  // 10 MB: 128 KiB, 256 KiB, and so on, of two streams.
  EXPECT_LE(remote_->calls()["get"], 20);
  options.read.threads = 8;
  const auto again = Open();
  ASSERT_OK_AND_ASSIGN(const auto other, again->OpenStep(200));
  Counter threads;
  ASSERT_OK(other->ScanTable("t", options, &threads));
  EXPECT_EQ(threads.rows(), 19'999);
}

TEST_F(UrlReaderTest, RefreshFindsNewAndDroppedSteps) {
  Make(MakeSampleStore);
  const auto reader = Open();
  ASSERT_NE(reader, nullptr);
  EXPECT_THAT(StepsOf(*reader), ElementsAre(100, 200, 300));
  ASSERT_OK(SaveSmall(400));
  ASSERT_OK(store_->Pin(300));
  Push();
  EXPECT_THAT(StepsOf(*reader), ElementsAre(100, 200, 300));
  // A step that is not known is looked for.
  ASSERT_OK_AND_ASSIGN(const auto step, reader->OpenStep(400));
  EXPECT_OK(step->Verify());
  EXPECT_THAT(StepsOf(*reader), ElementsAre(100, 200, 300, 400));
  EXPECT_TRUE(reader->FindStep(300)->pinned);
  CollectOptions options;
  options.keep = 1;
  ASSERT_OK(CollectRemote(remote_.get(), options));
  EXPECT_THAT(StepsOf(*reader), ElementsAre(100, 200, 300, 400));
  ASSERT_OK(reader->Refresh());
  EXPECT_THAT(StepsOf(*reader), ElementsAre(200, 300, 400));
  EXPECT_THAT(reader->OpenStep(100),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("100")));
  ASSERT_OK_AND_ASSIGN(const auto kept, reader->OpenStep(300));
  EXPECT_OK(kept->Verify());
}

TEST_F(UrlReaderTest, AbortsAReadOfAStepThatWasCollected) {
  Make(MakeSampleStore);
  const auto reader = Open();
  ASSERT_NE(reader, nullptr);
  ASSERT_OK(store_->Unpin(200));
  Push();
  ASSERT_OK_AND_ASSIGN(const auto step, reader->OpenStep(200));
  CollectOptions options;
  options.keep = 1;
  options.grace = absl::ZeroDuration();
  ASSERT_OK(CollectRemote(remote_.get(), options));
  remote_->Advance(absl::Hours(1));
  ASSERT_OK(CollectRemote(remote_.get(), options));
  EXPECT_THAT(step->Verify(),
              StatusIs(absl::StatusCode::kAborted, HasSubstr("removed")));
}

TEST_F(UrlReaderTest, ReportsDamageWithTheObject) {
  Make(MakeSampleStore);
  std::string& object = LargestObject();
  for (size_t at = 0; at < object.size(); at += 1000) object[at] ^= 0x40;
  const auto reader = Open();
  ASSERT_NE(reader, nullptr);
  const auto step = reader->OpenStep(200);
  ASSERT_OK(step);
  EXPECT_THAT((*step)->Verify(),
              StatusIs(absl::StatusCode::kDataLoss, HasSubstr("data/")));
}

TEST_F(UrlReaderTest, ReturnsErrorsOfTheServiceAndRecovers) {
  Make(MakeSampleStore);
  const auto reader = Open();
  ASSERT_NE(reader, nullptr);
  ASSERT_OK_AND_ASSIGN(const auto step, reader->OpenStep(200));
  remote_->set_before([](absl::string_view call, absl::string_view key) {
    return call == "get" && absl::StartsWith(key, "data/")
               ? absl::UnavailableError("no answer")
               : absl::OkStatus();
  });
  EXPECT_THAT(step->Verify(),
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr("no answer")));
  remote_->set_before(nullptr);
  EXPECT_OK(step->Verify());
}

TEST_F(UrlReaderTest, OpensNothingWithoutAShippedStep) {
  EXPECT_THAT(Reader::Open(kUrl), StatusIs(absl::StatusCode::kNotFound,
                                           HasSubstr("nothing was shipped")));
}

TEST_F(UrlReaderTest, RefusesWhatWrites) {
  Make(MakeSampleStore);
  const auto reader = Open();
  ASSERT_NE(reader, nullptr);
  const auto refused = [](absl::string_view remedy) {
    return StatusIs(absl::StatusCode::kFailedPrecondition,
                    AllOf(HasSubstr("URL"), HasSubstr(std::string(remedy))));
  };
  EXPECT_THAT(reader->PostMetrics(100, {{"auc", 1.0}}), refused("the store"));
  EXPECT_THAT(reader->RequestPin(100), refused("the store"));
  EXPECT_THAT(reader->GetUsage(), refused("remote ls"));
  EXPECT_THAT(Store::Open(kUrl), refused("remote fetch"));
  EXPECT_THAT(PushStore(kUrl, remote_.get()), refused("remote fetch"));
  EXPECT_THAT(FetchStore(remote_.get(), kUrl), refused("remote fetch"));
  StoreOptions required;
  required.leases = StoreOptions::LeaseMode::kRequired;
  EXPECT_THAT(Reader::Open(kUrl, required), refused("kWherePossible"));
}

TEST_F(UrlReaderTest, NamesTheRemedyUnlessUrlsAreEnabled) {
  internal::SetUrlFunctions({});
  EXPECT_THAT(Reader::Open(kUrl),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       AllOf(HasSubstr(kUrl), HasSubstr("EnableUrls"))));
}

TEST_F(UrlReaderTest, OpensAFolder) {
  ASSERT_OK_AND_ASSIGN(store_, MakeSampleStore(path()));
  const std::string url = "file://" + dir_.path() + "/remote";
  ASSERT_OK_AND_ASSIGN(const auto remote, OpenObjectStore(url));
  ASSERT_OK(PushStore(path(), remote.get()));
  EnableUrls();
  ASSERT_OK_AND_ASSIGN(const auto reader, Reader::Open(url));
  EXPECT_EQ(reader->path(), url);
  ASSERT_OK_AND_ASSIGN(const auto step, reader->OpenStep(200));
  EXPECT_OK(step->Verify());
}

TEST_F(UrlReaderTest, FetchDistinguishesAMissingFolderFromAnEmptyOne) {
  const std::string folder = dir_.path() + "/mount";
  EnableUrls();
  const auto fetch = [&] {
    return internal::FetchUrlStore("file://" + folder, dir_.path() + "/new",
                                   nullptr);
  };
  const auto newest = [&] {
    return internal::NewestUrlStep("file://" + folder, nullptr).status();
  };
  for (const absl::Status& status : {fetch(), newest()}) {
    EXPECT_THAT(status, FailedPrecondition(folder, "mount"));
  }
  std::filesystem::create_directory(folder);
  EXPECT_THAT(fetch(), NotFound("nothing was shipped"));
  EXPECT_THAT(newest(), NotFound("nothing was shipped"));
}

// Reads of any range, on many threads, with memory for a part of the object.
TEST(RangedObjectsTest, ReadsWhatTheObjectHas) {
  const auto store = std::make_shared<MemoryStore>();
  std::string bytes(3'000'000, '\0');
  for (size_t i = 0; i < bytes.size(); ++i) {
    bytes[i] = static_cast<char>(i * 2654435761U >> 13);
  }
  ASSERT_OK(store->PutIfAbsent("data/one", bytes, "token"));
  RangedObjects objects(store, 1 << 20);
  const OutsideTable table{"data/one", bytes.size(), "a", "b"};
  std::atomic<int> wrong = 0;
  const auto read = [&](uint64_t seed) {
    for (int i = 0; i < 300; ++i) {
      seed = seed * 6364136223846793005U + 1442695040888963407U;
      const uint64_t offset = (seed >> 20) % bytes.size();
      const uint64_t size =
          std::min<uint64_t>((seed >> 40) % 400'000, bytes.size() - offset);
      std::string out(size, '\0');
      if (!objects.Read(table, offset, absl::MakeSpan(out)).ok() ||
          out != bytes.substr(offset, size)) {
        ++wrong;
      }
    }
  };
  std::vector<std::thread> threads;
  for (uint64_t seed = 1; seed <= 4; ++seed) threads.emplace_back(read, seed);
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

TEST(RangedObjectsTest, AWaitForAnotherThreadsRequestCanBeCancelled) {
  const auto store = std::make_shared<MemoryStore>();
  ASSERT_OK(store->PutIfAbsent("data/one", "0123456789", "token"));
  std::promise<void> entered;
  std::promise<void> released;
  store->set_before([&](absl::string_view, absl::string_view) {
    entered.set_value();
    released.get_future().wait();
    return absl::OkStatus();
  });
  std::atomic<bool> cancelled = false;
  RangedObjects objects(store, 1 << 20, [&] { return cancelled.load(); });
  const OutsideTable table{"data/one", 10, "a", "b"};
  char first = 0;
  std::thread other(
      [&] { EXPECT_OK(objects.Read(table, 0, absl::MakeSpan(&first, 1))); });
  entered.get_future().wait();
  cancelled = true;
  char second = 0;
  EXPECT_THAT(objects.Read(table, 1, absl::MakeSpan(&second, 1)),
              StatusIs(absl::StatusCode::kCancelled, HasSubstr("")));
  released.set_value();
  other.join();
  EXPECT_EQ(first, '0');
}

TEST(RangedObjectsTest, ReadsARangeAgainAfterAnException) {
  const auto store = std::make_shared<MemoryStore>();
  ASSERT_OK(store->PutIfAbsent("data/one", "0123456789", "token"));
  RangedObjects objects(store, 1 << 20, [] { return true; });  // no wait
  store->set_before([&](absl::string_view, absl::string_view) -> absl::Status {
    throw std::bad_alloc();
  });
  const OutsideTable table{"data/one", 10, "a", "b"};
  char out = 0;
  EXPECT_THAT(objects.Read(table, 0, absl::MakeSpan(&out, 1)),
              ResourceExhausted("ObjectStore::Get"));
  store->set_before(nullptr);
  ASSERT_OK(objects.Read(table, 3, absl::MakeSpan(&out, 1)));
  EXPECT_EQ(out, '3');
}

TEST(RangedObjectsTest, ReadsAheadInScansOnly) {
  const auto store = std::make_shared<MemoryStore>();
  const std::string bytes(100 * RangedObjects::kCellBytes, 'x');
  ASSERT_OK(store->PutIfAbsent("data/one", bytes, "token"));
  const OutsideTable table{"data/one", bytes.size(), "a", "b"};
  RangedObjects objects(store, uint64_t{64} << 20);
  char out = 0;
  for (uint64_t cell = 0; cell < 100; ++cell) {
    ASSERT_OK(objects.Read(table, cell * RangedObjects::kCellBytes, {&out, 1}));
  }
  // 1, 2, 4, 8, 16, 32 and 37 cells.
  EXPECT_EQ(store->calls()["get"], 7);
  ASSERT_OK(objects.Read(table, 5, {&out, 1}));
  EXPECT_EQ(store->calls()["get"], 7);
}

}  // namespace
}  // namespace ckptdb::testing
