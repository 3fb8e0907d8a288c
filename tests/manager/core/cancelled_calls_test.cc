// SPDX-License-Identifier: Apache-2.0
// Calls that wait end when ManagerOptions::observers.cancelled returns true.
#include <array>
#include <atomic>
#include <numeric>
#include <stdexcept>
#include <thread>

#include "absl/strings/match.h"
#include "absl/time/clock.h"
#include "db/disk/environment.h"
#include "manager/save/pending_save_state.h"
#include "tests/manager/manager_fixture.h"
#include "tests/manager/run_ranks.h"
#include "tests/manager/sim_manager_fixture.h"

namespace ckptdb::testing {
namespace {

// Answers a manager's polls.
class Canceller {
 public:
  // Every poll must come from the thread that made the canceller.
  std::function<bool()> OnThisThread() {
    return [this, thread = std::this_thread::get_id()] {
      EXPECT_EQ(std::this_thread::get_id(), thread);
      ++polls_;
      return cancel_.load();
    };
  }
  void Cancel(bool cancel = true) { cancel_ = cancel; }
  int polls() const { return polls_; }

 private:
  std::atomic<bool> cancel_ = false;
  std::atomic<int> polls_ = 0;
};

class CancelledCallsTest : public ManagerTest {
 protected:
  void SetUp() override {
    ManagerTest::SetUp();
    options_.observers.cancelled = canceller_.OnThisThread();
  }
  void TearDown() override {
    gate_.Open();
    if (opener_.joinable()) opener_.join();
    ManagerTest::TearDown();
  }
  // Blocks saves at this point of a commit instead of in staging.
  void BlockAt(absl::string_view point) {
    options_.store.on_point = [this, point](absl::string_view at) {
      if (at != point) return;
      reached_ = true;
      gate_.Pass();
    };
  }
  void AwaitPoint() const {
    while (!reached_) std::this_thread::yield();
  }
  // Opens the gate a moment after a wait was cancelled.
  void OpenGateOncePolled() {
    opener_ = std::thread([this] {
      while (canceller_.polls() == 0) std::this_thread::yield();
      absl::SleepFor(absl::Milliseconds(50));
      gate_.Open();
    });
  }

  Canceller canceller_;
  std::atomic<bool> reached_ = false;
  std::thread opener_;
};

TEST_F(CancelledCallsTest, WaitsForAnEarlierSaveEnd_AndTheSaveContinues) {
  Start();
  gate_.Close();
  TrainTo(1);
  ASSERT_OK_AND_ASSIGN(const PendingSave save, manager_->Save());
  canceller_.Cancel();
  const auto is_cancelled = Cancelled("cancelled while waiting for", "step 1");
  for (int i = 0; i < 2; ++i) {
    SCOPED_TRACE(i);
    EXPECT_THAT(manager_->WaitUntilFinished(), is_cancelled);
    EXPECT_THAT(save.WaitCommitted(), is_cancelled);
    EXPECT_THAT(manager_->Save(), is_cancelled);
    EXPECT_THAT(manager_->Restore(), is_cancelled);
    EXPECT_THAT(manager_->Load({LoadRule()}), is_cancelled);
    EXPECT_THAT(manager_->AbandonSteps(), is_cancelled);
    EXPECT_THAT(manager_->Delete(1), is_cancelled);
    EXPECT_THAT(manager_->FinishTraining(), is_cancelled);
    EXPECT_THAT(manager_->StartTraining(), is_cancelled);
    EXPECT_OK(manager_->CheckForErrors());
    EXPECT_TRUE(manager_->IsSavingInProgress());
  }
  EXPECT_THAT(TrainStep(), is_cancelled);  // step 2 is due
  EXPECT_EQ(manager_->global_step(), 2);
  EXPECT_OK(TrainStep());  // step 3 is not
  gate_.Open();
  // Nothing is left to wait for, so nothing is cancelled.
  while (manager_->IsSavingInProgress()) std::this_thread::yield();
  EXPECT_OK(save.WaitCommitted());
  canceller_.Cancel(false);
  TrainAndWait(4);
  EXPECT_THAT(Steps(), ElementsAre(1, 4));
  EXPECT_EQ(Record(4).kind, StepRecord::Kind::kDelta);
  ExpectStepHolds(1);
  ExpectStepHolds(4);
  EXPECT_OK(manager_->Close());
}

TEST_F(CancelledCallsTest, PollsAboutTenTimesASecond) {
  Start();
  gate_.Close();
  TrainTo(1);
  ASSERT_OK_AND_ASSIGN(const PendingSave save, manager_->Save());
  EXPECT_EQ(canceller_.polls(), 0);
  EXPECT_THAT(save.WaitCommitted(absl::Milliseconds(550)),
              DeadlineExceeded("step 1 is not committed after 550ms"));
  EXPECT_GE(canceller_.polls(), 1);
  EXPECT_LE(canceller_.polls(), 5);
}

TEST_F(CancelledCallsTest, FinishTrainingEnds_AndItsSaveContinues) {
  Start();
  TrainAndWait(2);
  gate_.Close();
  TrainTo(3);
  canceller_.Cancel();
  EXPECT_THAT(manager_->FinishTraining(), Cancelled("the save of step 3"));
  EXPECT_THAT(manager_->FinishTraining(), Cancelled("the save of step 3"));
  canceller_.Cancel(false);
  gate_.Open();
  EXPECT_OK(manager_->FinishTraining());
  EXPECT_THAT(Steps(), ElementsAre(2, 3));
  ExpectStepHolds(3);
}

TEST_F(CancelledCallsTest, FinishTrainingKeepsAnEarlierErrorForTheNextCall) {
  Start();
  FailSaves();
  TrainTo(2);
  while (manager_->IsSavingInProgress()) std::this_thread::yield();
  FailSaves(false);
  gate_.Close();
  canceller_.Cancel();
  EXPECT_THAT(manager_->FinishTraining(), Cancelled("the save of step 2"));
  canceller_.Cancel(false);
  gate_.Open();
  EXPECT_THAT(manager_->WaitUntilFinished(), Unavailable("save of step 2"));
  EXPECT_OK(manager_->Close());
  EXPECT_THAT(Steps(), ElementsAre(2));
}

TEST_F(CancelledCallsTest, CloseCancelsTheSaveAndCloses) {
  Start();
  TrainAndWait(2);
  gate_.Close();
  TrainTo(4);
  canceller_.Cancel();
  OpenGateOncePolled();
  EXPECT_THAT(manager_->Close(), Cancelled("the save of step 4 was cancelled"));
  EXPECT_OK(manager_->Close());
  EXPECT_EQ(manager_->store(), nullptr);
  EXPECT_THAT(Steps(), ElementsAre(2));
  canceller_.Cancel(false);
  Start();
  EXPECT_EQ(Restored(), 2);
  TrainAndClose(4);
  ExpectStepHolds(4);
}

TEST_F(CancelledCallsTest, CloseWaitsForACommitThatHasBegun) {
  BlockAt(point::kChecked);
  Start();
  gate_.Close();
  TrainTo(2);
  AwaitPoint();
  canceller_.Cancel();
  OpenGateOncePolled();
  EXPECT_THAT(manager_->Close(), Cancelled("the save of step 2"));
  EXPECT_EQ(manager_->store(), nullptr);
  EXPECT_THAT(Steps(), ElementsAre(2));
}

// The step exists, so it must not be reported as cancelled, nor saved twice.
TEST_F(CancelledCallsTest, SynchronousSaveContinues_OnceItsCommitHasBegun) {
  BlockAt(point::kChecked);
  options_.save.async = false;
  Start();
  gate_.Close();
  TrainTo(1);
  std::thread canceller([this] {
    AwaitPoint();
    canceller_.Cancel();
  });
  EXPECT_THAT(manager_->Save(), Cancelled("step 1 to be saved"));
  canceller.join();
  EXPECT_TRUE(manager_->IsSavingInProgress());
  EXPECT_THAT(manager_->WaitUntilFinished(), Cancelled("the save of step 1"));
  model_->Train(2);  // no thread reads the model
  canceller_.Cancel(false);
  gate_.Open();
  EXPECT_OK(manager_->WaitUntilFinished());
  EXPECT_THAT(Steps(), ElementsAre(1));
  EXPECT_OK(manager_->FinishTraining());
  ExpectStepHolds(1);
  EXPECT_OK(manager_->Step());
  EXPECT_THAT(Steps(), ElementsAre(1, 2));
  EXPECT_OK(manager_->Close());
}

TEST_F(CancelledCallsTest, ExceptionEndsTheWait) {
  std::atomic<bool> throws = true;
  options_.observers.cancelled = [&] {
    if (throws) throw std::runtime_error("interrupted");
    return false;
  };
  Start();
  gate_.Close();
  TrainTo(2);
  EXPECT_THAT(manager_->WaitUntilFinished(),
              Internal("observers.cancelled threw: interrupted"));
  throws = false;
  gate_.Open();
  EXPECT_OK(manager_->Close());
  EXPECT_THAT(Steps(), ElementsAre(2));
}

TEST_F(CancelledCallsTest, CallsOfTheManagerAreRefusedWhilePolling) {
  options_.observers.cancelled = [this] {
    EXPECT_THAT(manager_->Step(), FailedPrecondition("must not call"));
    EXPECT_EQ(manager_->global_step(), 2);
    return true;
  };
  Start();
  gate_.Close();
  TrainTo(2);
  EXPECT_THAT(manager_->Restore(), Cancelled("step 2"));
  options_.observers.cancelled = nullptr;
}

TEST_F(CancelledCallsTest, WaitsForAStepAndForAStoreEnd) {
  Start();
  TrainAndClose(2);
  ManagerOptions options;
  options.path = options_.path;
  options.read_only = true;
  options.observers.cancelled = canceller_.OnThisThread();
  options.follow.poll_every = absl::Minutes(5);
  TestModel model;
  ASSERT_OK_AND_ASSIGN(const auto follower,
                       CheckpointManager::Open(options, &model.state));
  ASSERT_OK(follower->WaitForStep(absl::InfiniteDuration()));
  canceller_.Cancel();
  const auto is_cancelled = Cancelled("cancelled while waiting for a step");
  EXPECT_THAT(follower->WaitForStep(absl::InfiniteDuration()), is_cancelled);
  EXPECT_THAT(follower->AwaitStep(absl::InfiniteDuration()), is_cancelled);
  ExpectTrained(model, 2);
  options.path = dir_.path() + "/missing";
  options.follow.await_store = absl::InfiniteDuration();
  EXPECT_THAT(CheckpointManager::Open(options, &model.state),
              Cancelled("the store to be created"));
}

TEST(CancelledPendingSave, EndsItsWaitsAndKeepsTheirResults) {
  std::atomic<int> polls = 0;
  PendingSave::State save(7, [&] { return ++polls % 2 == 1; });
  EXPECT_THAT(save.WaitStaged(absl::InfiniteDuration()),
              Cancelled("step 7 to be staged"));
  EXPECT_THAT(save.WaitStaged(absl::Milliseconds(150)),
              StatusIs(absl::StatusCode::kDeadlineExceeded, HasSubstr("7")));
  EXPECT_THAT(save.WaitFinished(absl::InfiniteDuration()),
              Cancelled("step 7 to be committed"));
  save.SetStaged(absl::OkStatus());
  save.Finish(absl::UnavailableError("disk"));
  EXPECT_OK(save.WaitStaged(absl::InfiniteDuration()));
  EXPECT_THAT(save.WaitFinished(absl::InfiniteDuration()), Unavailable("disk"));
  EXPECT_EQ(polls, 3);
}

TEST(CancelledPendingSave, CancelsUntilTheCommitBegins) {
  PendingSave::State cancelled(1);
  EXPECT_TRUE(cancelled.Cancel());
  EXPECT_TRUE(cancelled.Cancel());
  EXPECT_TRUE(cancelled.cancelled());
  EXPECT_FALSE(cancelled.BeginCommit());
  PendingSave::State committed(1);
  EXPECT_TRUE(committed.BeginCommit());
  EXPECT_FALSE(committed.Cancel());
  EXPECT_FALSE(committed.cancelled());
  EXPECT_TRUE(committed.BeginCommit());
}

// Each write of a staged file takes a while.
class SlowFiles : public rocksdb::FileSystemWrapper {
 public:
  using FileSystemWrapper::FileSystemWrapper;
  const char* Name() const override { return "SlowFiles"; }
  std::atomic<bool> slow = false;
  std::atomic<int> writes = 0;

  rocksdb::IOStatus NewWritableFile(
      const std::string& path, const rocksdb::FileOptions& options,
      std::unique_ptr<rocksdb::FSWritableFile>* file,
      rocksdb::IODebugContext* debug) override {
    rocksdb::IOStatus status =
        FileSystemWrapper::NewWritableFile(path, options, file, debug);
    if (status.ok() && absl::StrContains(path, "/staging/")) {
      *file = std::make_unique<File>(std::move(*file), this);
    }
    return status;
  }

 private:
  class File : public rocksdb::FSWritableFileOwnerWrapper {
   public:
    File(std::unique_ptr<rocksdb::FSWritableFile> file, SlowFiles* files)
        : FSWritableFileOwnerWrapper(std::move(file)), files_(files) {}
    rocksdb::IOStatus Append(const rocksdb::Slice& bytes,
                             const rocksdb::IOOptions& options,
                             rocksdb::IODebugContext* debug) override {
      Note();
      return FSWritableFileOwnerWrapper::Append(bytes, options, debug);
    }
    rocksdb::IOStatus Append(const rocksdb::Slice& bytes,
                             const rocksdb::IOOptions& options,
                             const rocksdb::DataVerificationInfo& checks,
                             rocksdb::IODebugContext* debug) override {
      Note();
      return FSWritableFileOwnerWrapper::Append(bytes, options, checks, debug);
    }

   private:
    void Note() {
      ++files_->writes;
      if (files_->slow) absl::SleepFor(absl::Milliseconds(150));
    }
    SlowFiles* const files_;
  };
};

// Whether saves run in the background.
class SlowSaveTest : public SimManagerTest,
                     public ::testing::WithParamInterface<bool> {
 protected:
  static constexpr size_t kBytes = size_t{32} << 20;

  void SetUp() override {
    SimManagerTest::SetUp();
    options_.save.async = GetParam();
    options_.save.arena_bytes = 1 << 20;
    options_.observers.cancelled = canceller_.OnThisThread();
    options_.store.environment = std::make_shared<internal::Environment>(
        slow_, [] { return int64_t{1'000'000}; }, /*on_disk=*/false);
    options_.schedule.permanent = SaveAtSteps({2, 6});
    big_.resize(kBytes / sizeof(uint32_t));
    for (size_t i = 0; i < big_.size(); ++i) {
      big_[i] = static_cast<uint32_t>(i * 2654435761U);
    }
    model_ = std::make_unique<TestModel>();
    ASSERT_OK(model_->state.AddTensor(
        "big", TensorState::Of(reinterpret_cast<int32_t*>(big_.data()),
                               {static_cast<int64_t>(big_.size())})));
    Reopen();
    TrainAndWait(2);
  }
  // Trains a step and saves it slowly, until the save is cancelled.
  void CancelASave() {
    const std::vector<int64_t> before = Steps();
    big_[0] += 1;
    slow_->slow = true;
    canceller_.Cancel();
    const int written = slow_->writes;
    ASSERT_OK(TrainStep());
    EXPECT_THAT(manager_->Save(),
                Cancelled("cancelled while waiting for step",
                          GetParam() ? "to be staged" : "to be saved"));
    EXPECT_LT(slow_->writes - written, writes_ / 2);
    slow_->slow = false;
    canceller_.Cancel(false);
    EXPECT_FALSE(manager_->IsSavingInProgress());
    EXPECT_THAT(Steps(), before);
    EXPECT_THAT(
        reports_.back().status,
        Cancelled(absl::StrCat("the save of step ", manager_->global_step())));
    // Returned once.
    EXPECT_OK(manager_->CheckForErrors());
    EXPECT_OK(manager_->WaitUntilFinished());
  }

  Canceller canceller_;
  std::shared_ptr<SlowFiles> slow_ =
      std::make_shared<SlowFiles>(std::make_shared<SimFileSystem>());
  std::vector<uint32_t> big_;
  int writes_ = 0;
};

TEST_P(SlowSaveTest, CancelledSaveLeavesTheStore_AndTheNextHasItsChanges) {
  writes_ = slow_->writes;
  ASSERT_GE(writes_, 8);
  ASSERT_NO_FATAL_FAILURE(CancelASave());  // step 3
  ASSERT_NO_FATAL_FAILURE(CancelASave());  // step 4
  TrainAndWait(6);
  EXPECT_THAT(Steps(), ElementsAre(2, 6));
  EXPECT_EQ(Record(6).kind, StepRecord::Kind::kDelta);
  EXPECT_OK(manager_->Close());
  ExpectRestores(6);
}

TEST_P(SlowSaveTest, ToleratedCancellationIsReturned) {
  options_.save.tolerated_failures = 5;
  Reopen();
  ASSERT_EQ(Restored(), 2);
  writes_ = slow_->writes;
  ASSERT_NO_FATAL_FAILURE(CancelASave());
  TrainAndWait(6);
  EXPECT_OK(manager_->Close());
  ExpectRestores(6);
}

INSTANTIATE_TEST_SUITE_P(Async, SlowSaveTest, ::testing::Bool());

// Blocks of about 4 MiB, which are slow to get; the copy takes one at a time.
class WideTable : public TableState {
 public:
  static constexpr int kBlocks = 10;
  bool slow = false;
  mutable std::atomic<int> taken = 0;

  std::vector<Slot> slots() const override {
    return {{"embedding", DType::kF32, kElements}};
  }
  absl::StatusOr<std::unique_ptr<RowSource>> AllRows() const override {
    return std::make_unique<Source>(*this);
  }
  absl::StatusOr<std::unique_ptr<RowSource>> RowsOf(
      absl::Span<const int64_t>) const override {
    return absl::InternalError("the table has no tracker");
  }
  LiveTable* Live(absl::Span<const std::string>) override { return nullptr; }

 private:
  static constexpr uint32_t kElements = 16384;
  static constexpr size_t kRows = 63;
  class Source : public RowSource {
   public:
    explicit Source(const WideTable& table) : table_(table) {
      std::iota(ids_.begin(), ids_.end(), 0);
    }
    uint64_t block_count() const override { return kBlocks; }
    absl::StatusOr<RowBlock> Block(uint64_t block) const override {
      ++table_.taken;
      if (table_.slow) absl::SleepFor(absl::Milliseconds(60));
      return RowBlock{{&ids_[block * kRows], kRows}, slots_};
    }

   private:
    const WideTable& table_;
    std::vector<int64_t> ids_ = std::vector<int64_t>(kBlocks * kRows);
    std::vector<float> values_ = std::vector<float>(kRows * kElements);
    std::array<RowBlock::SlotValues, 1> slots_ = {
        {{values_.data(), kElements * sizeof(float)}}};
  };
};

TEST_F(CancelledCallsTest, CopyIsCancelledBetweenItsParts) {
  options_.save.copy_threads = 1;
  Start();
  manager_.reset();
  WideTable wide;
  ASSERT_OK(model_->state.AddTable("wide", &wide));
  Reopen();
  TrainTo(1);
  wide.slow = true;
  canceller_.Cancel();
  EXPECT_THAT(manager_->Save(), Cancelled("step 1 to be copied"));
  // All blocks are looked at once before the copy.
  EXPECT_GT(wide.taken, WideTable::kBlocks);
  EXPECT_LT(wide.taken, 2 * WideTable::kBlocks);
  wide.slow = false;
  canceller_.Cancel(false);
  EXPECT_OK(manager_->WaitUntilFinished());
  EXPECT_THAT(Steps(), IsEmpty());
  TrainAndWait(2);
  EXPECT_THAT(Steps(), ElementsAre(2));
  ExpectStepHolds(2);
  EXPECT_OK(manager_->Close());
  manager_.reset();
}

class CancelledRanksTest : public ManagerTest {};

// If one rank left such a call, the others would wait for it in the next.
TEST_F(CancelledRanksTest, CallsOfAllRanksDoNotPoll) {
  std::atomic<bool> cancel = true;
  options_.observers.cancelled = [&] { return cancel.load(); };
  options_.ranks.deadline = absl::Seconds(30);
  for (const bool async : {true, false}) {
    options_.save.async = async;
    options_.path = dir_.path() + (async ? "/async" : "/sync");
    RunModels(2, options_, [&](uint32_t, CheckpointManager* m, TestModel* t) {
      for (int64_t step = 1; step <= 6; ++step) {
        t->Train(step);
        ASSERT_OK(m->Step());
      }
      ASSERT_OK(m->Save({.overwrite = true}));
      ASSERT_OK(m->Restore());
      t->Train(7);
      ASSERT_OK(m->Step());
      ASSERT_OK(m->FinishTraining());
    });
  }
}

// This rank alone stops to wait.
TEST_F(CancelledRanksTest, WaitUntilFinishedPollsOnItsRank) {
  std::atomic<bool> cancel = true;
  gate_.Close();
  RunModels(
      2, options_,
      [&](uint32_t rank, CheckpointManager* manager, TestModel* model) {
        for (int64_t step = 1; step <= 2; ++step) {
          model->Train(step);
          ASSERT_OK(manager->Step());
        }
        if (rank == 1) {
          EXPECT_THAT(manager->WaitUntilFinished(), Cancelled("step 2"));
          EXPECT_THAT(manager->WaitUntilFinished(), Cancelled("step 2"));
          cancel = false;
          gate_.Open();
        }
        EXPECT_OK(manager->WaitUntilFinished());
        for (int64_t step = 3; step <= 4; ++step) {
          model->Train(step);
          ASSERT_OK(manager->Step());
        }
        EXPECT_OK(manager->Close());
      },
      [&](uint32_t rank, ManagerOptions* options) {
        if (rank == 1)
          options->observers.cancelled = [&] { return cancel.load(); };
      });
  EXPECT_THAT(Steps(), ElementsAre(2, 4));
}

// Close cancels the save on all ranks, if it is not too late.
TEST_F(CancelledRanksTest, CloseOfOneRankCancelsTheSaveOfAll) {
  for (const uint32_t closing : {0U, 1U}) {
    SCOPED_TRACE(closing);
    options_.path = absl::StrCat(dir_.path(), "/store", closing);
    std::atomic<bool> cancel = false;
    std::thread opener;
    gate_.Close();
    RunModels(
        2, options_,
        [&](uint32_t rank, CheckpointManager* manager, TestModel* model) {
          for (int64_t step = 1; step <= 2; ++step) {
            model->Train(step);
            ASSERT_OK(manager->Step());
          }
          if (rank == closing) cancel = true;
          const auto failed = Cancelled(absl::StrCat("rank ", closing),
                                        "the save of step 2 was cancelled");
          if (rank == closing) {
            EXPECT_THAT(manager->Close(), failed);
          } else {
            EXPECT_THAT(manager->WaitUntilFinished(), failed);
            EXPECT_OK(manager->Close());
          }
        },
        [&](uint32_t rank, ManagerOptions* options) {
          if (rank != closing) return;
          options->observers.cancelled = [&] {
            if (!cancel) return false;
            opener = std::thread([this] {
              absl::SleepFor(absl::Milliseconds(100));
              gate_.Open();
            });
            return true;
          };
        });
    opener.join();
    EXPECT_THAT(Steps(), IsEmpty());
  }
}

}  // namespace
}  // namespace ckptdb::testing
