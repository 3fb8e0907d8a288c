// SPDX-License-Identifier: Apache-2.0
// Runs every thread-safe call concurrently with every other, on one store: a
// manager that trains and saves, threads that wait, inspect, read and delete, a
// follower, and threads that mark rows. Mainly for sanitizers, but results are
// checked, too.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <future>
#include <random>
#include <set>
#include <thread>

#include "db/reader.h"
#include "tests/manager/manager_fixture.h"
#include "tests/support/long_run.h"
#include "tests/support/seed.h"

namespace ckptdb::testing {
namespace {

constexpr auto kShortRun = std::chrono::seconds(3);
constexpr auto kLongRun = std::chrono::minutes(3);

using Codes = std::initializer_list<absl::StatusCode>;

bool IsOneOf(const absl::Status& status, Codes codes) {
  return status.ok() ||
         std::find(codes.begin(), codes.end(), status.code()) != codes.end();
}
void ExpectOneOf(const absl::Status& status, Codes codes) {
  EXPECT_TRUE(IsOneOf(status, codes)) << status;
}

// The rows of a scan, which several threads deliver.
class ScannedRows : public RowSink {
 public:
  absl::Status Consume(int, const RowSink::Batch& batch) override {
    const std::lock_guard<std::mutex> lock(mutex_);
    for (size_t i = 0; i < batch.ids.size(); ++i) {
      TestRow row;
      std::memcpy(row.weights, batch.slots[0] + i * 8, 8);
      std::memcpy(&row.state, batch.slots[1] + i * 4, 4);
      rows[batch.ids[i]] = row;
    }
    return absl::OkStatus();
  }
  TestRows rows;

 private:
  std::mutex mutex_;
};

class ConcurrentCallsTest : public ManagerTest {
 protected:
  void SetUp() override {
    ManagerTest::SetUp();
    options_.store.on_point = nullptr;
    options_.store.background_sweep = true;
    options_.observers.on_warning = [](const std::string&) {};
    options_.observers.on_saved = [this](const SaveReport& report) {
      if (report.status.ok()) committed_ = report.step;
      // A callback cannot wait for its own save.
      EXPECT_TRUE(absl::IsFailedPrecondition(manager_->WaitUntilFinished()));
    };
    options_.schedule.permanent = SaveEveryNSteps(3);
    options_.retention.keep = LatestN(6);
  }

  // Calls `body` repeatedly, concurrently with all others, until time is up.
  void Beside(const std::function<void(std::mt19937_64*)>& body) {
    threads_.emplace_back([this, body, seed = TestSeed() + threads_.size()] {
      std::mt19937_64 random(seed);
      while (!stop_) body(&random);
    });
  }
  void StopThreads() {
    stop_ = true;
    for (std::thread& thread : threads_) thread.join();
    threads_.clear();
  }

  // A fold whose step is deleted meanwhile may keep writing to a folder that a
  // sweep deletes: the next sweep deletes it.
  static void ExpectSwept(const absl::Status& status) {
    ExpectOneOf(status, {absl::StatusCode::kUnavailable});
  }
  // Returns a step, usually an existing one.
  int64_t AnyStep(std::mt19937_64* random) {
    const std::vector<StepRecord> steps = manager_->store()->Steps();
    if (steps.empty()) return 3;
    return steps[(*random)() % steps.size()].version.step;
  }

  // Data read from a step must equal the training's state at that step.
  static void ExpectHolds(const StepReader& step) {
    const int64_t number = step.record().version.step;
    SCOPED_TRACE(number);
    TestModel expected;
    testing::TrainTo(number, &expected);
    ScannedRows rows;
    ASSERT_OK(step.ScanTable("user", {}, &rows));
    EXPECT_TRUE(rows.rows == expected.users.rows());
    std::vector<float> weights(6);
    ASSERT_OK(step.ReadTensor("w", weights.data(), 24));
    EXPECT_EQ(weights, expected.weights);
    EXPECT_OK(step.Verify());
  }

  void ReadAStep(std::mt19937_64* random);
  void FollowTheStore(std::mt19937_64* random);
  void ChangeRecords(std::mt19937_64* random);
  void LookAtAll(std::mt19937_64* random);
  void WaitForSaves(std::mt19937_64* random);
  void Train(std::mt19937_64* random);

  std::atomic<bool> stop_ = false;
  std::atomic<int64_t> committed_ = 0;
  std::atomic<int64_t> cancelled_ = 0;  // step of the cancelled save
  std::atomic<uint64_t> waits_ = 0;
  std::atomic<uint64_t> told_ = 0;
  std::atomic<uint64_t> reads_ = 0;
  std::vector<std::thread> threads_;
};

void ConcurrentCallsTest::ReadAStep(std::mt19937_64* random) {
  const auto step = manager_->store()->OpenStep(AnyStep(random));
  if (step.ok()) {
    ExpectHolds(**step);
    ++reads_;
  } else {
    EXPECT_TRUE(absl::IsNotFound(step.status())) << step.status();
  }
}

void ConcurrentCallsTest::FollowTheStore(std::mt19937_64* random) {
  const auto reader = Reader::Open(options_.path);
  ASSERT_TRUE(IsOneOf(reader.status(), {absl::StatusCode::kUnavailable}))
      << reader.status();
  if (!reader.ok()) return;
  for (int i = 0; i < 3 && !stop_; ++i) {
    const absl::Status refreshed = (*reader)->Refresh();
    ASSERT_TRUE(IsOneOf(refreshed, {absl::StatusCode::kUnavailable}))
        << refreshed;
    const std::vector<StepRecord> steps = (*reader)->Steps();
    if (steps.empty()) return;
    const StepRecord& any = steps[(*random)() % steps.size()];
    const auto step = (*reader)->OpenStep(any.version.step);
    ASSERT_TRUE(IsOneOf(step.status(), {absl::StatusCode::kNotFound,
                                        absl::StatusCode::kUnavailable}))
        << step.status();
    if (step.ok()) ExpectHolds(**step);
  }
}

void ConcurrentCallsTest::ChangeRecords(std::mt19937_64* random) {
  Store* const store = manager_->store();
  const int64_t step = AnyStep(random);
  const auto expect = [](const absl::Status& status) {
    ExpectOneOf(status,
                {absl::StatusCode::kNotFound, absl::StatusCode::kAborted});
  };
  switch ((*random)() % 7) {
    case 0: {
      const absl::Status pinned = store->Pin(step);
      expect(pinned);
      if (!pinned.ok()) break;
      // A pinned step is neither retired nor deleted.
      EXPECT_TRUE(absl::IsFailedPrecondition(store->Delete(step)));
      EXPECT_OK(store->FindStep(step));
      EXPECT_OK(store->Unpin(step));
      break;
    }
    case 1:
      expect(store->AddMetrics(step, {{"auc", 0.5}}));
      break;
    case 2:
      EXPECT_OK(store->SetUserMetadata({{"step", std::to_string(step)}}));
      EXPECT_FALSE(store->user_metadata().empty());
      break;
    case 3: {
      StepRecord::Evaluation part;
      part.processed = static_cast<uint64_t>(step);
      expect(store->SaveEvaluation(step, "all", "group", {&part, 1}));
      const auto found = store->FindEvaluation(step, "all", 0);
      expect(found.status());
      if (found.ok() && found->has_value()) {
        EXPECT_EQ((*found)->processed, static_cast<uint64_t>(step));
      }
      break;
    }
    case 4:
      if (const absl::Status folded = store->Fold(step).status();
          !absl::IsUnavailable(folded)) {  // see ExpectSwept
        expect(folded);
      }
      break;
    case 5:
      ExpectSwept(store->Sweep().status());
      break;
    default:
      expect(store->SetEphemeral(step, (*random)() % 2 == 0));
  }
}

void ConcurrentCallsTest::LookAtAll(std::mt19937_64* random) {
  Store* const store = manager_->store();
  int64_t last = 0;
  store->VisitSteps([&](const StepRecord& record) {
    EXPECT_GT(record.version.step, last);
    last = record.version.step;
  });
  EXPECT_OK(store->GetUsage());
  ExpectSwept(store->sweep_status());
  const int64_t committed = committed_;
  const auto latest = store->Latest();
  if (committed > 0) {
    ASSERT_OK(latest);
    EXPECT_GE(latest->version.step, committed);
  }
  const absl::StatusOr<StepExplanation> story =
      manager_->Explain(AnyStep(random));
  ExpectOneOf(story.status(), {absl::StatusCode::kNotFound});
  EXPECT_GE(manager_->global_step(), committed);
  EXPECT_FALSE(manager_->preempted());
}

// A waiter may only receive the error of a cancelled save.
void ConcurrentCallsTest::WaitForSaves(std::mt19937_64* random) {
  const bool wait = (*random)() % 2 == 0;
  const absl::Status status =
      wait ? manager_->WaitUntilFinished() : manager_->CheckForErrors();
  ExpectOneOf(status, {absl::StatusCode::kCancelled});
  ++waits_;
  if (!status.ok()) ++told_;
  manager_->IsSavingInProgress();
  std::this_thread::yield();
}

// Occasionally cancels a save, whose error the training must receive once.
void ConcurrentCallsTest::Train(std::mt19937_64* random) {
  const int64_t step = manager_->global_step() + 1;
  model_->Train(step);
  absl::StatusOr<StepOutcome> outcome = manager_->StepTo(step);
  ExpectOneOf(outcome.status(), {absl::StatusCode::kCancelled});
  if (!outcome.ok()) {
    EXPECT_GT(cancelled_, 0) << outcome.status();
    cancelled_ = 0;
    return;
  }
  if (!outcome->save.has_value() || (*random)() % 4 != 0) return;
  EXPECT_EQ(cancelled_, 0) << "the error of a cancelled save was not returned";
  PendingSave save = *outcome->save;
  save.Cancel();
  if ((*random)() % 2 == 0) {
    const absl::Status told = save.WaitCommitted().status();
    ExpectOneOf(told, {absl::StatusCode::kCancelled});
    EXPECT_OK(manager_->WaitUntilFinished()) << "it was returned before";
    return;
  }
  const auto wait = [&] { return save.WaitCommitted().status(); };
  const bool failed = !std::async(std::launch::async, wait).get().ok();
  if (failed) cancelled_ = step;
  // The training receives it, whoever else does.
  if (failed && (*random)() % 2 == 0) {
    EXPECT_TRUE(absl::IsCancelled(manager_->WaitUntilFinished()));
    EXPECT_OK(manager_->CheckForErrors());
    cancelled_ = 0;
  }
}

TEST_F(ConcurrentCallsTest, ReturnConsistentResults) {
  Start();
  const auto end =
      std::chrono::steady_clock::now() + (IsLongRun() ? kLongRun : kShortRun);
  Beside([this](auto* random) { ReadAStep(random); });
  Beside([this](auto* random) { FollowTheStore(random); });
  Beside([this](auto* random) { ChangeRecords(random); });
  Beside([this](auto* random) { LookAtAll(random); });
  for (int i = 0; i < 3; ++i) {
    Beside([this](auto* random) { WaitForSaves(random); });
  }
  std::mt19937_64 random(TestSeed());
  while (std::chrono::steady_clock::now() < end && !HasFailure()) {
    Train(&random);
  }
  StopThreads();
  const absl::Status closed = manager_->Close();
  EXPECT_TRUE(cancelled_ > 0 ? absl::IsCancelled(closed) : closed.ok())
      << closed;
  EXPECT_GT(reads_, 0U);
  EXPECT_GT(waits_, 0U);
  ASSERT_OK_AND_ASSIGN(const auto store, Store::Open(options_.path));
  for (const StepRecord& record : store->Steps()) {
    ASSERT_OK_AND_ASSIGN(const auto step, store->OpenStep(record.version.step));
    ExpectHolds(*step);
  }
}

// Many threads mark rows while consumers take and return marks: no mark is
// lost, and none is invented.
TEST_F(ConcurrentCallsTest, TrackersLoseNoMark) {
  constexpr int kMarkers = 4;
  RowTracker tracker;
  const auto end = std::chrono::steady_clock::now() +
                   (IsLongRun() ? kLongRun / 3 : kShortRun / 3);
  std::vector<ChangeTracker::Consumer> consumers;
  for (const char* name : {"checkpoint", "serving"}) {
    ASSERT_OK_AND_ASSIGN(consumers.emplace_back(), tracker.AddConsumer(name));
    // A consumer's first set is incomplete: earlier marks may be missing.
    ASSERT_OK(tracker.Take(consumers.back()));
  }
  std::vector<std::set<int64_t>> marked(kMarkers);
  for (int m = 0; m < kMarkers; ++m) {
    threads_.emplace_back([&, m] {
      std::mt19937_64 random(TestSeed() + static_cast<uint64_t>(m));
      while (!stop_) {
        std::vector<int64_t> ids(1 + random() % 50);
        for (int64_t& id : ids) {
          id = static_cast<int64_t>(random() % 100'000) * kMarkers + m;
        }
        tracker.MarkUpserted(ids);
        marked[static_cast<size_t>(m)].insert(ids.begin(), ids.end());
      }
    });
  }
  std::vector<std::set<int64_t>> taken(2);
  const auto take = [&](size_t c, bool give_back) {
    absl::StatusOr<ChangeTracker::Changes> changes = tracker.Take(consumers[c]);
    ASSERT_OK(changes);
    ASSERT_TRUE(changes->complete) << changes->reason;
    EXPECT_TRUE(changes->erased.empty());
    if (give_back) {
      ASSERT_OK(tracker.Return(consumers[c], *std::move(changes)));
    } else {
      taken[c].insert(changes->upserted.begin(), changes->upserted.end());
    }
  };
  for (size_t c = 0; c < consumers.size(); ++c) {
    Beside([&, c](auto* random) {
      take(c, (*random)() % 3 == 0);
      EXPECT_LE(tracker.memory_bytes(), uint64_t{1} << 30);
    });
  }
  while (std::chrono::steady_clock::now() < end && !HasFailure()) {
    std::promise<void> never;
    never.get_future().wait_for(std::chrono::milliseconds(10));
  }
  StopThreads();
  std::set<int64_t> all;
  for (const auto& each : marked) all.insert(each.begin(), each.end());
  for (size_t c = 0; c < consumers.size(); ++c) {
    take(c, /*give_back=*/false);
    EXPECT_TRUE(taken[c] == all) << taken[c].size() << " of " << all.size();
  }
}

}  // namespace
}  // namespace ckptdb::testing
