// SPDX-License-Identifier: Apache-2.0
// ReadOptions::cancelled, which every call that reads polls, and
// ReadOptions::progress.

#include "db/base/parallel.h"
#include "tests/db/delta_fixture.h"

namespace ckptdb::testing {
namespace {

using Read = std::function<absl::Status(const ReadOptions& options)>;

class CancelledTest : public DeltaFixture {
 protected:
  void SetUp() override {
    DeltaFixture::SetUp();
    content_.tables["user"] = BulkTable(1);
    content_.tensors["bulk"] = BulkTensor(1);
    for (int i = 0; i < 200; ++i) {
      content_.tensors["t" + std::to_string(i)] = BulkTensor(i, 500);
    }
    content_.blobs["reader"] = BulkTensor(2).bytes;
    SaveNext(1);
    const Version first = *parent_;
    auto row = rows().begin();
    for (int i = 0; i < 2000; ++i, ++row) row->second[i % 8192] ^= 1;
    SaveNext(2);
    ASSERT_OK_AND_ASSIGN(step_, store_->OpenStep(2));
    ASSERT_OK_AND_ASSIGN(forwards_, store_->OpenChanges(first, 2));
    ASSERT_OK_AND_ASSIGN(backwards_, store_->OpenChanges(*parent_, 1));
    EXPECT_TRUE(forwards_->forwards());
    EXPECT_FALSE(backwards_->forwards());
  }
  void TearDown() override {
    step_.reset();
    forwards_.reset();
    backwards_.reset();
  }

  // Expects that a read polls often, that each poll can end it, that the
  // calling thread polls as well, and that the next read succeeds.
  void ExpectCancellable(const Read& read, uint64_t least_polls) {
    ReadOptions options{.threads = 1};
    std::atomic<uint64_t> polls = 0;
    options.cancelled = [&] {
      ++polls;
      return false;
    };
    EXPECT_OK(read(options));
    EXPECT_GE(polls, least_polls);
    const uint64_t all = polls;
    for (const int threads : {1, 4}) {
      options.threads = threads;
      for (const uint64_t last : {uint64_t{1}, uint64_t{2}, all / 2, all}) {
        polls = 0;
        options.cancelled = [&] { return ++polls >= last; };
        EXPECT_THAT(read(options), Cancelled("ReadOptions::cancelled"))
            << last << " of " << all << " polls, " << threads << " threads";
      }
    }
    ExpectPollsOfTheCallingThread(read);
    options.cancelled = []() -> bool { throw std::runtime_error("poll"); };
    EXPECT_THAT(read(options),
                StatusIs(absl::StatusCode::kInternal,
                         HasSubstr("ReadOptions::cancelled threw: poll")));
    options.cancelled = nullptr;
    EXPECT_OK(read(options));
  }

  // Expects that a read reports its bytes, which ascend to `bytes`.
  void ExpectProgress(const Read& read, uint64_t bytes) {
    uint64_t last = 0;
    ReadOptions options;
    options.progress = [&](uint64_t done_bytes, uint64_t all_bytes) {
      EXPECT_GT(done_bytes, last);
      EXPECT_EQ(all_bytes, bytes);
      last = done_bytes;
    };
    EXPECT_OK(read(options));
    EXPECT_EQ(last, bytes);
    options.progress = [](uint64_t, uint64_t) {
      throw std::runtime_error("bar");
    };
    EXPECT_THAT(read(options),
                StatusIs(absl::StatusCode::kInternal,
                         HasSubstr("ReadOptions::progress threw: bar")));
  }

  // Other threads wait in their polls for those of the calling thread.
  static void ExpectPollsOfTheCallingThread(const Read& read) {
    const std::thread::id own = std::this_thread::get_id();
    std::mutex mutex;
    std::condition_variable changed;
    int polls = 0;
    const auto cancelled = [&] {
      std::unique_lock<std::mutex> lock(mutex);
      if (std::this_thread::get_id() == own) ++polls;
      changed.notify_all();
      changed.wait(lock, [&] {
        return polls >= 3 || std::this_thread::get_id() == own;
      });
      return false;
    };
    EXPECT_OK(read({.threads = 4, .cancelled = cancelled}));
    EXPECT_GE(polls, 3);
  }

  std::unique_ptr<StepReader> step_;
  std::unique_ptr<ChangeReader> forwards_;
  std::unique_ptr<ChangeReader> backwards_;
};

TEST_F(CancelledTest, ReadsOfTensorsAndBlobs) {
  std::string bytes(kBulkTensorBytes, '\0');
  ExpectCancellable(
      [&](const ReadOptions& options) {
        return step_->ReadTensor("bulk", bytes.data(), bytes.size(), options);
      },
      36);
  EXPECT_TRUE(bytes == content_.tensors["bulk"].bytes);
  const auto half = static_cast<int64_t>(bytes.size() / sizeof(float) / 2);
  ExpectCancellable(
      [&](const ReadOptions& options) {
        return step_->ReadTensorPart("bulk", {half}, {half}, bytes.data(),
                                     bytes.size() / 2, options);
      },
      18);
  std::vector<std::string> small(200, std::string(500, '\0'));
  std::vector<std::string> names;
  for (int i = 0; i < 200; ++i) names.push_back("t" + std::to_string(i));
  std::vector<StepReader::TensorRead> reads = {
      {"bulk", bytes.data(), bytes.size()}};
  for (size_t i = 0; i < small.size(); ++i) {
    reads.push_back({names[i], small[i].data(), small[i].size()});
  }
  ExpectCancellable(
      [&](const ReadOptions& options) {
        return step_->ReadTensors(reads, options);
      },
      236);
  EXPECT_TRUE(bytes == content_.tensors["bulk"].bytes);
  EXPECT_TRUE(small[7] == content_.tensors["t7"].bytes);
  ExpectCancellable(
      [&](const ReadOptions& options) {
        return step_->ReadBlob(0, "reader", options).status();
      },
      36);
}

TEST_F(CancelledTest, LookupRows) {
  std::vector<int64_t> ids;
  for (int64_t id = 0; id < 2200 * 31; ++id) ids.push_back(id);
  const std::vector<std::string> slots = {"embedding"};
  std::vector<char> values(ids.size() * 8192);
  const std::vector<char*> out = {values.data()};
  const auto found = std::make_unique<bool[]>(ids.size());
  ExpectCancellable(
      [&](const ReadOptions& options) {
        return step_->LookupRows("user", ids, slots, out, found.get(), options);
      },
      100);
}

TEST_F(CancelledTest, Scans) {
  const TableContent& table = content_.tables["user"];
  ExpectCancellable(
      [&](const ReadOptions& options) {
        return Scan(*step_, "user", {.read = options}).status();
      },
      100);
  ExpectCancellable(
      [&](const ReadOptions& options) {
        LiveRows live(table.slots);
        return step_->RestoreTable("user", LiveTable::RestoreMode::kClear,
                                   {.read = options}, &live);
      },
      100);
  for (const ChangeReader* const changes :
       {forwards_.get(), backwards_.get()}) {
    ExpectCancellable(
        [&](const ReadOptions& options) {
          LiveRows live(table.slots, history_[1].tables["user"].rows);
          return changes->ScanTable("user", {.read = options}, &live);
        },
        100);
  }
  ExpectCancellable(
      [&](const ReadOptions& options) { return step_->Verify(options); }, 300);
  ExpectHolds(*step_, {content_});
}

TEST_F(CancelledTest, ReadsReportTheirProgress) {
  std::string bytes(kBulkTensorBytes, '\0');
  const std::vector<StepReader::TensorRead> reads = {
      {"bulk", bytes.data(), bytes.size()}, {"t1", bytes.data(), 500}};
  ExpectProgress(
      [&](const ReadOptions& options) {
        return step_->ReadTensors(reads, options);
      },
      bytes.size() + 500);
  const TableContent& table = content_.tables["user"];
  const uint64_t row = sizeof(int64_t) + 8192;
  const uint64_t all = FindItem(1, "user").rows + FindItem(2, "user").rows;
  ExpectProgress(
      [&](const ReadOptions& options) {
        return Scan(*step_, "user", {.read = options}).status();
      },
      all * row);
  ExpectProgress(
      [&](const ReadOptions& options) {
        LiveRows live(table.slots, history_[1].tables["user"].rows);
        return forwards_->ScanTable("user", {.read = options}, &live);
      },
      FindItem(2, "user").rows * row);
}

TEST_F(CancelledTest, StagingReportsItsProgress) {
  uint64_t last = 0;
  bool throws = false;
  options_.progress = [&](uint64_t done_bytes, uint64_t all_bytes) {
    if (throws) throw std::runtime_error("bar");
    EXPECT_GT(done_bytes, last);
    last = done_bytes;
    // Small saves stage entries, others files.
    EXPECT_TRUE(all_bytes == 500 || all_bytes == kBulkTensorBytes);
  };
  TearDown();
  Reopen();
  for (const std::string name : {"t1", "bulk"}) {
    SCOPED_TRACE(name);
    RankState state;
    const std::string& bytes = content_.tensors[name].bytes;
    state.AddTensor(
        "w", TensorView::Of(reinterpret_cast<const uint8_t*>(bytes.data()),
                            {static_cast<int64_t>(bytes.size())}));
    last = 0;
    throws = true;
    EXPECT_THAT(store_->Save({.step = 3, .overwrite = true}, state),
                StatusIs(absl::StatusCode::kInternal,
                         HasSubstr("StoreOptions::progress threw: bar")));
    throws = false;
    ASSERT_OK(store_->Save({.step = 3, .overwrite = true}, state));
    EXPECT_EQ(last, bytes.size());
  }
}

TEST_F(CancelledTest, ARestoreThatIsCancelledAtOnceDoesNotClear) {
  LiveRows live(content_.tables["user"].slots);
  EXPECT_THAT(
      step_->RestoreTable("user", LiveTable::RestoreMode::kClear,
                          {.read = {.cancelled = [] { return true; }}}, &live),
      Cancelled("ReadOptions::cancelled"));
  EXPECT_FALSE(live.cleared());
}

// The calling thread has no task left, and another thread waits for its polls.
TEST(ParallelForTest, TheCallingThreadPollsWhileOthersWork) {
  const std::thread::id own = std::this_thread::get_id();
  for (const bool fails : {false, true}) {
    std::mutex mutex;
    std::condition_variable changed;
    bool other_works = false;
    int polls = 0;
    const auto task = [&](int worker, uint64_t) {
      std::unique_lock<std::mutex> lock(mutex);
      if (worker == 0) {
        changed.wait(lock, [&] { return other_works; });
      } else {
        other_works = true;
        changed.notify_all();
        changed.wait(lock, [&] { return polls >= (fails ? 1 : 3); });
      }
      return absl::OkStatus();
    };
    const auto poll = [&] {
      const std::lock_guard<std::mutex> lock(mutex);
      EXPECT_EQ(std::this_thread::get_id(), own);
      ++polls;
      changed.notify_all();
      return fails ? absl::CancelledError("enough") : absl::OkStatus();
    };
    const absl::Status status = internal::ParallelFor(2, 2, task, poll);
    if (fails) {
      EXPECT_THAT(status, Cancelled("enough"));
      EXPECT_EQ(polls, 1);
    } else {
      EXPECT_OK(status);
    }
  }
}

TEST(ParallelForTest, AnErrorOfATaskPrecedesThatOfThePoll) {
  std::mutex mutex;
  std::condition_variable changed;
  bool other_works = false;
  bool polled = false;
  const auto task = [&](int worker, uint64_t) -> absl::Status {
    std::unique_lock<std::mutex> lock(mutex);
    if (worker == 0) {
      changed.wait(lock, [&] { return other_works; });
      return absl::OkStatus();
    }
    other_works = true;
    changed.notify_all();
    changed.wait(lock, [&] { return polled; });
    return absl::DataLossError("damaged");
  };
  const auto poll = [&] {
    const std::lock_guard<std::mutex> lock(mutex);
    polled = true;
    changed.notify_all();
    return absl::CancelledError("enough");
  };
  EXPECT_THAT(internal::ParallelFor(2, 2, task, poll), DataLoss("damaged"));
}

}  // namespace
}  // namespace ckptdb::testing
