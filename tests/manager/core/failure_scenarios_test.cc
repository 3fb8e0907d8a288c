// SPDX-License-Identifier: Apache-2.0
// Failure scenarios of a trainer and its store.
#include <algorithm>
#include <filesystem>
#include <future>

#include "db/options.h"
#include "tests/db/sim_store.h"
#include "tests/manager/manager_fixture.h"
#include "tests/manager/run_ranks.h"
#include "tests/manager/test_options.h"
#include "tests/support/long_run.h"

namespace ckptdb::testing {
namespace {

namespace fs = std::filesystem;

// A renamed folder is the same store.
TEST_F(ManagerTest, StoreMayBeMoved) {
  Start();
  TrainAndWait(4);
  const std::string uuid = manager_->store()->uuid();
  manager_.reset();
  const std::string before = options_.path;
  options_.path = dir_.path() + "/archive/renamed";
  fs::create_directory(dir_.path() + "/archive");
  fs::rename(before, options_.path);
  Start();
  EXPECT_EQ(manager_->store()->uuid(), uuid);
  EXPECT_EQ(Restored(), 4);
  TrainAndClose(6);
  EXPECT_EQ(reports_.back().result.kind, StepRecord::Kind::kDelta);
  EXPECT_THAT(Steps(), ElementsAre(2, 4, 6));
  for (const int64_t step : {2, 4, 6}) ExpectStepHolds(step);
  EXPECT_FALSE(fs::exists(before));
}

// Ranks some of which have an io state.
class MissingIoStateTest : public ::testing::Test {
 protected:
  struct Rank {
    float weight = 0;
    TestIo reader;
  };

  // Runs `body` on each rank, and returns their results.
  std::vector<absl::Status> Run(
      const std::function<bool(uint32_t rank)>& has_reader,
      const std::function<absl::Status(CheckpointManager*)>& body) {
    return RunManagers(
        3, TestOptions(dir_.path() + "/store"),
        [&](uint32_t rank, ModelState* model) {
          absl::Status added =
              model->AddTensor("w", TensorState::Of(&ranks_[rank].weight, {1}));
          if (has_reader(rank)) {
            added.Update(model->AddIoState("reader", &ranks_[rank].reader));
          }
          return added;
        },
        [&](uint32_t, CheckpointManager* manager) { return body(manager); });
  }
  static absl::Status Save(CheckpointManager* manager) {
    const auto save = manager->Save();
    return save.ok() ? manager->WaitUntilFinished() : save.status();
  }
  static bool All(uint32_t) { return true; }

  TempDir dir_;
  std::vector<Rank> ranks_{3};
};

TEST_F(MissingIoStateTest, RestoreFailsOnAllRanksAndChangesNothing) {
  ASSERT_THAT(Run([](uint32_t rank) { return rank != 1; }, Save), Each(IsOk()));
  for (Rank& rank : ranks_) {
    rank.weight = 7;
    rank.reader.position = "untouched";
  }
  EXPECT_THAT(
      Run(All, [](auto* manager) { return manager->Restore().status(); }),
      Each(FailedPrecondition("rank 1: ",
                              "missing in the step: io_state \"reader\"")));
  for (const Rank& rank : ranks_) {
    EXPECT_EQ(rank.weight, 7);
    EXPECT_EQ(rank.reader.position, "untouched");
  }
}

// All ranks fail the restore, and no rank saves a model that is partly restored
// on one of them.
TEST_F(MissingIoStateTest, NoRankSaves_WhenOneRankIsPartlyRestored) {
  ASSERT_THAT(Run(All, Save), Each(IsOk()));
  ranks_[1].reader.refuses = absl::DataLossError("no such file");
  const auto partly = FailedPrecondition("partly written");
  EXPECT_THAT(Run(All,
                  [&](CheckpointManager* manager) {
                    EXPECT_THAT(manager->Restore(), DataLoss("rank 1: "));
                    EXPECT_THAT(manager->StepTo(1), partly);
                    return Save(manager);
                  }),
              Each(partly));
}

// Blocks threads at a crash point until released.
class PointTest : public ManagerTest {
 protected:
  void SetUp() override {
    ManagerTest::SetUp();
    const auto hold = [this](absl::string_view point) {
      std::unique_lock<std::mutex> lock(mutex_);
      if (point != held_) return;
      reached_ = true;
      changed_.notify_all();
      changed_.wait(lock, [&] { return point != held_; });
    };
    options_.store.on_point = hold;
  }
  void TearDown() override {
    LetGo();
    manager_.reset();
    ManagerTest::TearDown();
  }

  void HoldAt(absl::string_view point) {
    const std::lock_guard<std::mutex> lock(mutex_);
    held_ = point;
    reached_ = false;
  }
  void WaitUntilHeld() {
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait(lock, [&] { return reached_; });
  }
  void LetGo() {
    const std::lock_guard<std::mutex> lock(mutex_);
    held_ = {};
    changed_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  absl::string_view held_;
  bool reached_ = false;
};

class SignalTest : public PointTest {
 protected:
  void SetUp() override {
    PointTest::SetUp();
    options_.schedule.permanent = SaveEveryNSteps(2) | SaveOnPreemption();
  }
  // Step 3 is saved because of the signal, in addition to step 2.
  void ExpectThirdStepSaved() {
    ASSERT_OK_AND_ASSIGN(const StepOutcome outcome, TrainStep());
    EXPECT_TRUE(manager_->preempted());
    EXPECT_EQ(outcome.step, 3);
    ASSERT_TRUE(outcome.save.has_value()) << outcome.decision.reason;
    EXPECT_EQ(outcome.decision.reason, "preempted");
    ASSERT_OK(manager_->Close());
    EXPECT_THAT(Steps(), ElementsAre(2, 3));
    ExpectStepHolds(2);
    ExpectStepHolds(3);
  }
};

TEST_F(SignalTest, ArrivesBeforeASave) {
  Start();
  manager_->SetPreempted();
  EXPECT_EQ(TrainStep().value().decision.reason, "preempted");
  ASSERT_OK(manager_->Close());
  EXPECT_THAT(Steps(), ElementsAre(1));
  ExpectStepHolds(1);
}

TEST_F(SignalTest, ArrivesAfterASave) {
  Start();
  TrainAndWait(2);
  manager_->SetPreempted();
  ExpectThirdStepSaved();
}

class SignalPhaseTest : public SignalTest,
                        public ::testing::WithParamInterface<int> {};

TEST_P(SignalPhaseTest, ArrivesDuringASave) {
  Start();
  HoldAt(kCrashPoints[static_cast<size_t>(GetParam())]);
  const auto signal = std::async(std::launch::async, [this] {
    WaitUntilHeld();
    manager_->SetPreempted();
    LetGo();
  });
  TrainTo(2);
  signal.wait();
  ExpectThirdStepSaved();
}

// The crash points of a save; the last three belong to a sweep.
INSTANTIATE_TEST_SUITE_P(Points, SignalPhaseTest, ::testing::Range(0, 7));

// Saving step 2 blocks until step 3 waits for it.
TEST_F(SignalTest, ArrivesWhileTheTrainingWaits) {
  Start();
  HoldAt(point::kStaged);
  TrainTo(2);
  WaitUntilHeld();
  manager_->SetPreempted();
  const auto opened = std::async(std::launch::async, [this] { LetGo(); });
  ExpectThirdStepSaved();
}

class BusySignalTest
    : public SignalTest,
      public ::testing::WithParamInterface<ManagerOptions::BusyPolicy> {};

// If the training does not wait, the step after the signal is skipped, and
// FinishTraining saves it.
TEST_P(BusySignalTest, FinishTrainingSavesTheSkippedStep) {
  options_.save.busy = GetParam();
  Start();
  HoldAt(point::kStaged);
  TrainTo(2);
  WaitUntilHeld();
  manager_->SetPreempted();
  const auto third = TrainStep();
  LetGo();
  EXPECT_FALSE(third.ok() && third->save.has_value());
  EXPECT_TRUE(manager_->preempted());
  ASSERT_OK(manager_->FinishTraining());
  EXPECT_THAT(Steps(), ElementsAre(2, 3));
  ExpectStepHolds(3);
}

INSTANTIATE_TEST_SUITE_P(
    Policies, BusySignalTest,
    ::testing::Values(ManagerOptions::BusyPolicy::kSkip,
                      ManagerOptions::BusyPolicy::kCoalesce,
                      ManagerOptions::BusyPolicy::kFail));

using SweepTest = PointTest;

TEST_F(SweepTest, SavesAndDeletionsDoNotWaitForASweep) {
  options_.retention.keep = LatestN(2);
  options_.save.deltas = false;
  Start();
  TrainAndWait(6);
  HoldAt(point::kSweepMarked);
  auto sweep = std::async(std::launch::async,
                          [this] { return manager_->store()->Sweep(); });
  WaitUntilHeld();
  TrainTo(8);  // step 4 is retired with it
  absl::Status status = manager_->WaitUntilFinished();
  status.Update(manager_->store()->Delete(6));
  TrainTo(10);
  status.Update(manager_->WaitUntilFinished());
  LetGo();
  EXPECT_OK(status);
  ASSERT_OK_AND_ASSIGN(const Store::SweepResult swept, sweep.get());
  // Garbage created since is left to the next sweep.
  EXPECT_THAT(swept.swept_versions,
              ElementsAre(::testing::Field(&Version::step, 2)));
  const Store::SweepResult next = manager_->store()->Sweep().value();
  EXPECT_THAT(next.swept_versions,
              ElementsAre(::testing::Field(&Version::step, 4)))
      << "step 8 shares a value with step 6";
  EXPECT_THAT(Steps(), ElementsAre(8, 10));
  ExpectStepHolds(8);
  ExpectStepHolds(10);
}

// Returns the paths below a folder, with the bytes of each file.
std::map<std::string, std::string> FilesBelow(const std::string& root) {
  std::map<std::string, std::string> files;
  for (const auto& entry : fs::recursive_directory_iterator(root)) {
    if (!entry.is_regular_file()) continue;
    std::ifstream file(entry.path(), std::ios::binary);
    std::string& bytes = files[fs::relative(entry.path(), root).string()];
    bytes.resize(entry.file_size());
    file.read(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  }
  return files;
}

// Copies data files as hard links and the rest as copies. Returns the number of
// links.
int LinkCopy(const std::string& from, const std::string& to) {
  int links = 0;
  fs::create_directories(to);
  for (const auto& entry : fs::recursive_directory_iterator(from)) {
    const fs::path path = to / fs::relative(entry.path(), from);
    if (entry.is_directory()) {
      fs::create_directories(path);
    } else if (path.extension() == ".sst") {
      fs::create_hard_link(entry.path(), path);
      ++links;
    } else {
      fs::copy_file(entry.path(), path);
    }
  }
  return links;
}

TEST_F(ManagerTest, CopyOfHardLinksStaysIntact) {
  // Too large for the write batch: such a tensor has a separate file.
  std::vector<float> large(size_t{9} << 18);
  const auto start = [&](const std::string& path) {
    options_.path = path;
    Start();
    ASSERT_OK(model_->state.AddTensor(
        "large",
        TensorState::Of(large.data(), {static_cast<int64_t>(large.size())})));
    Reopen();
  };
  options_.retention.keep = LatestN(2);
  const auto train_to = [&](int64_t step) {
    while (manager_->global_step() < step) {
      std::fill(large.begin(), large.end(),
                static_cast<float>(manager_->global_step() + 1));
      ASSERT_OK(TrainStep());
    }
    ASSERT_OK(manager_->WaitUntilFinished());
  };
  const std::string original = options_.path;
  const std::string copy = dir_.path() + "/copy";
  ASSERT_NO_FATAL_FAILURE(start(original));
  ASSERT_NO_FATAL_FAILURE(train_to(4));
  ASSERT_OK(manager_->Close());  // no file disappears meanwhile
  EXPECT_GE(LinkCopy(original, copy), 2);
  const auto before = FilesBelow(copy);

  // The trainer saves, folds and sweeps until it shares no file with the copy.
  ASSERT_NO_FATAL_FAILURE(Reopen());
  ASSERT_OK(manager_->Restore());
  ASSERT_NO_FATAL_FAILURE(train_to(8));
  ASSERT_OK(manager_->store()->Fold(8));
  ASSERT_OK(manager_->store()->Delete(6));
  ASSERT_OK(manager_->store()->Sweep());
  EXPECT_TRUE(FilesBelow(copy) == before);

  // Another trainer continues with the copy.
  ASSERT_OK(manager_->Close());
  ASSERT_NO_FATAL_FAILURE(start(copy));
  EXPECT_THAT(Steps(), ElementsAre(2, 4));
  ASSERT_OK(manager_->Restore());
  ExpectTrained(*model_, 4);
  EXPECT_THAT(large, Each(4));
  ASSERT_NO_FATAL_FAILURE(train_to(8));
  ASSERT_OK(manager_->store()->Sweep());
  EXPECT_THAT(Steps(), ElementsAre(6, 8));

  // The original is undamaged.
  ASSERT_NO_FATAL_FAILURE(start(original));
  EXPECT_EQ(Restored({.verify = true}), 8);
  ExpectTrained(*model_, 8);
}

int64_t ResidentPages() {
  std::ifstream statm("/proc/self/statm");
  int64_t all = 0;
  int64_t resident = 0;
  statm >> all >> resident;
  return resident;
}

class BusyPolicyTest
    : public ManagerTest,
      public ::testing::WithParamInterface<ManagerOptions::BusyPolicy> {
 protected:
  using Policy = ManagerOptions::BusyPolicy;

  // In each pair of steps, the second finds the first's save in progress,
  // unless it waits for it.
  void TrainPairs(int pairs) {
    for (int i = 0; i < pairs; ++i) {
      if (GetParam() != Policy::kWait) gate_.Close();
      ASSERT_OK_AND_ASSIGN(const StepOutcome first, TrainStep());
      ASSERT_TRUE(first.save.has_value());
      const auto second = TrainStep();
      gate_.Open();
      if (GetParam() == Policy::kFail) {
        ASSERT_THAT(second, FailedPrecondition("is being saved"));
      } else {
        ASSERT_OK(second);
        ASSERT_EQ(second->save.has_value(), GetParam() == Policy::kWait);
      }
      ASSERT_OK(manager_->WaitUntilFinished());
    }
  }
};

// A save frees or reuses its memory.
TEST_P(BusyPolicyTest, MemoryDoesNotGrowOverTwoHundredSaves) {
  if (kSanitized) GTEST_SKIP() << "a sanitizer allocates memory itself";
  options_.retention.keep = LatestN(2);
  options_.schedule.permanent = SaveEveryNSteps(1);
  options_.store.background_sweep = true;
  options_.save.busy = GetParam();
  options_.save.base_every = 5;
  Start();
  const bool waits = GetParam() == Policy::kWait;
  ASSERT_NO_FATAL_FAILURE(TrainPairs(waits ? 50 : 100));
  const int64_t before = ResidentPages();
  ASSERT_NO_FATAL_FAILURE(TrainPairs(waits ? 100 : 200));
  ASSERT_OK(manager_->Close());
  constexpr int64_t kPages = 4096;  // 16 MiB
  EXPECT_LE(ResidentPages(), before + kPages);
  EXPECT_EQ(reports_.size(), 300U);
  const int64_t last = waits ? 300 : 599;
  EXPECT_THAT(Steps(), ElementsAre(waits ? 299 : 597, last));
  for (const int64_t step : Steps()) ExpectStepHolds(step);
}

INSTANTIATE_TEST_SUITE_P(
    Policies, BusyPolicyTest,
    ::testing::Values(ManagerOptions::BusyPolicy::kWait,
                      ManagerOptions::BusyPolicy::kSkip,
                      ManagerOptions::BusyPolicy::kCoalesce,
                      ManagerOptions::BusyPolicy::kFail));

// Opens, decides about, restores and retires many steps in one batch, on a disk
// without delays.
TEST_F(ManagerTest, HandlesAThousandSteps) {
  const int64_t steps = IsLongRun() ? 10'000 : kSanitized ? 200 : 1000;
  SimStore disk(std::make_shared<SimFileSystem>());
  ASSERT_OK(disk.Open());
  for (int64_t step = 1; step <= steps; ++step) {
    RankState state;
    state.AddTensor("w", TensorView::Of(&step, {1}));
    ASSERT_OK(disk.store()->Save({.step = step}, state));
  }
  disk.Close();

  options_.path = SimStore::kPath;
  options_.store.environment = disk.environment();
  options_.store.stage_threads = 1;
  options_.retention.keep = KeepEveryNSteps(100) | LatestN(2);
  int64_t weight = 0;
  ModelState model;
  ASSERT_OK(model.AddTensor("w", TensorState::Of(&weight, {1})));
  const auto expect_restores = [&](int64_t step) {
    ASSERT_OK(manager_->Restore({.step = step}));
    EXPECT_EQ(weight, step);
  };
  ASSERT_OK_AND_ASSIGN(manager_, CheckpointManager::Open(options_, &model));
  EXPECT_EQ(Steps().size(), static_cast<size_t>(steps));
  expect_restores(steps / 2 + 3);
  expect_restores(steps);
  std::vector<int64_t> kept;
  for (int64_t step = 100; step <= steps; step += 100) kept.push_back(step);
  for (const int64_t step : {steps + 2, steps + 4}) {
    weight = step;
    ASSERT_OK(manager_->StepTo(step));
    kept.push_back(step);
  }
  ASSERT_OK(manager_->WaitUntilFinished());
  EXPECT_EQ(Steps(), kept);
  EXPECT_EQ(reports_.front().retired_steps.size(),
            steps + 1 - (kept.size() - 1));
  ASSERT_OK(manager_->store()->Sweep());

  manager_.reset();
  ASSERT_OK_AND_ASSIGN(manager_, CheckpointManager::Open(options_, &model));
  EXPECT_EQ(Steps(), kept);
  for (const int64_t step : kept) expect_restores(step);
  manager_.reset();
}

}  // namespace
}  // namespace ckptdb::testing
