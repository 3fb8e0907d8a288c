// SPDX-License-Identifier: Apache-2.0
// A preemption: signaled to one rank, agreed on by all at one step, ended by
// saving that step, and repeatable.
#include <gmock/gmock.h>

#include <functional>
#include <future>
#include <memory>
#include <random>
#include <thread>
#include <vector>

#include "schema/status.h"
#include "tests/manager/manager_fixture.h"
#include "tests/support/seed.h"

namespace ckptdb::testing {
namespace {

using ::testing::ElementsAre;

class PreemptionTest : public ManagerTest {
 protected:
  void SetUp() override {
    ManagerTest::SetUp();
    options_.schedule.permanent = SaveOnPreemption();
  }
  // Trains a step, and returns whether its outcome is preempted.
  bool StepIsPreempted() {
    const absl::StatusOr<StepOutcome> outcome = TrainStep();
    EXPECT_OK(outcome);
    EXPECT_OK(manager_->WaitUntilFinished());
    return outcome.ok() && outcome->preempted;
  }
};

TEST_F(PreemptionTest, EndsWithItsSaveAndMayRepeat) {
  Start();
  EXPECT_FALSE(StepIsPreempted());
  manager_->SetPreempted();
  EXPECT_TRUE(manager_->preempted());
  EXPECT_TRUE(StepIsPreempted());
  EXPECT_TRUE(manager_->preempted());
  EXPECT_FALSE(StepIsPreempted());
  EXPECT_FALSE(manager_->preempted());
  manager_->SetPreempted();
  EXPECT_TRUE(StepIsPreempted());
  EXPECT_FALSE(StepIsPreempted());
  EXPECT_THAT(Steps(), ElementsAre(2, 4));
}

// The trainer continues while that save is in progress.
TEST_F(PreemptionTest, IsReportedOnceWhileItsSaveIsInProgress) {
  Start();
  gate_.Close();
  manager_->SetPreempted();
  ASSERT_OK_AND_ASSIGN(const StepOutcome first, TrainStep());
  EXPECT_TRUE(first.preempted);
  ASSERT_OK_AND_ASSIGN(const StepOutcome second, TrainStep());
  EXPECT_FALSE(second.preempted);
  gate_.Open();
  ASSERT_OK(manager_->Close());
  EXPECT_THAT(Steps(), ElementsAre(1));
}

TEST_F(PreemptionTest, StaysUnanswered_WhenItsSaveFails) {
  options_.save.tolerated_failures = 1;
  options_.observers.on_warning = [](const std::string&) {};
  Start();
  model_->users.FailWith(absl::UnavailableError("no rows today"));
  manager_->SetPreempted();
  EXPECT_TRUE(StepIsPreempted());
  model_->users.FailWith(absl::OkStatus());
  EXPECT_TRUE(StepIsPreempted());
  EXPECT_FALSE(StepIsPreempted());
  EXPECT_THAT(Steps(), ElementsAre(2));
}

// Save has no outcome that could report it.
TEST_F(PreemptionTest, IsReportedAfterAnExplicitSave) {
  Start();
  EXPECT_FALSE(StepIsPreempted());
  manager_->SetPreempted();
  ASSERT_OK(manager_->Save());
  EXPECT_TRUE(manager_->preempted());
  EXPECT_TRUE(StepIsPreempted());
  EXPECT_FALSE(StepIsPreempted());
}

TEST_F(PreemptionTest, EndsWithTheSaveOfFinishTraining) {
  options_.schedule.permanent = {};
  Start();
  manager_->SetPreempted();
  EXPECT_TRUE(StepIsPreempted());
  EXPECT_TRUE(StepIsPreempted()) << "no step is saved";
  ASSERT_OK(manager_->FinishTraining());
  EXPECT_THAT(Steps(), ElementsAre(2));
  EXPECT_FALSE(StepIsPreempted());
}

TEST_F(PreemptionTest, FinishTrainingSavesNothing_WhenTimeIsShort) {
  options_.schedule.ephemeral = SaveEveryNSteps(2);
  options_.save.preemption_grace = absl::ZeroDuration();
  Start();
  TrainTo(2);
  ASSERT_OK(manager_->WaitUntilFinished());
  manager_->SetPreempted();
  EXPECT_TRUE(StepIsPreempted());
  ASSERT_OK(manager_->FinishTraining());
  EXPECT_THAT(Steps(), ElementsAre(2));
  EXPECT_FALSE(StepIsPreempted()) << "step 2 is permanent instead";
  ASSERT_OK(manager_->FinishTraining());
  EXPECT_THAT(Steps(), ElementsAre(2, 4));
}

class PreemptionRanksTest : public ::testing::Test {
 protected:
  static constexpr uint32_t kRanks = 3;

  void SetUp() override {
    options_.path = dir_.path() + "/store";
    options_.schedule.permanent = SaveOnPreemption();
    options_.ranks.deadline = absl::Seconds(60);
  }
  // Runs `train` on each rank, and returns their results.
  std::vector<absl::StatusOr<int64_t>> Run(
      const std::function<absl::StatusOr<int64_t>(
          uint32_t rank, CheckpointManager* manager)>& train) {
    ThreadGroup group(kRanks);
    std::vector<absl::StatusOr<int64_t>> results(kRanks);
    std::vector<std::thread> threads;
    for (uint32_t rank = 0; rank < kRanks; ++rank) {
      threads.emplace_back([&, rank] {
        int64_t epoch = 0;
        ModelState model;
        EXPECT_OK(model.AddValue("epoch", &epoch));
        auto manager =
            CheckpointManager::Open(options_, &model, group.Join(rank));
        results[rank] = manager.ok()
                            ? train(rank, manager->get())
                            : absl::StatusOr<int64_t>(manager.status());
      });
    }
    for (std::thread& thread : threads) thread.join();
    return results;
  }
  std::vector<int64_t> Saved() {
    std::vector<int64_t> steps;
    const auto reader = Reader::Open(options_.path);
    EXPECT_OK(reader);
    for (const StepRecord& record : (*reader)->Steps()) {
      steps.push_back(record.version.step);
    }
    return steps;
  }

  TempDir dir_;
  ManagerOptions options_;
};

// Whenever and wherever the signal arrives: without this agreement, ranks left
// their loops at different steps and lost the save.
TEST_F(PreemptionRanksTest, AllRanksStopAtTheSameStep) {
  std::mt19937_64 random(TestSeed());
  for (int run = 0; run < 15; ++run) {
    options_.path = absl::StrCat(dir_.path(), "/", run);
    const uint64_t told = random() % kRanks;
    const auto after = static_cast<int64_t>(random() % 20);
    std::promise<CheckpointManager*> reached;
    std::promise<void> signalled;
    std::thread signal([&] {
      reached.get_future().get()->SetPreempted();
      signalled.set_value();
    });
    const auto left =
        Run([&](uint32_t rank,
                CheckpointManager* manager) -> absl::StatusOr<int64_t> {
          while (true) {
            if (rank == told && manager->global_step() == after) {
              reached.set_value(manager);
            }
            CKPTDB_ASSIGN_OR_RETURN(const StepOutcome outcome, manager->Step());
            if (outcome.preempted) break;
          }
          if (rank == told) signalled.get_future().wait();
          CKPTDB_RETURN_IF_ERROR(manager->FinishTraining());
          CKPTDB_RETURN_IF_ERROR(manager->Close());
          return manager->global_step();
        });
    signal.join();
    ASSERT_OK(left[0]);
    EXPECT_GT(*left[0], after);
    for (const auto& rank : left) {
      ASSERT_OK(rank);
      EXPECT_EQ(*rank, *left[0]);
    }
    EXPECT_THAT(Saved(), ElementsAre(*left[0]));
  }
}

TEST_F(PreemptionRanksTest, MayRepeatOnAnotherRank) {
  const auto ends = Run(
      [](uint32_t rank, CheckpointManager* manager) -> absl::StatusOr<int64_t> {
        int64_t preempted = 0;  // as bits, by step
        while (manager->global_step() < 8) {
          if (rank == 2 && manager->global_step() == 2) manager->SetPreempted();
          if (rank == 1 && manager->global_step() == 5) manager->SetPreempted();
          CKPTDB_ASSIGN_OR_RETURN(const StepOutcome outcome, manager->Step());
          CKPTDB_RETURN_IF_ERROR(manager->WaitUntilFinished());
          if (outcome.preempted) preempted |= int64_t{1} << outcome.step;
        }
        CKPTDB_RETURN_IF_ERROR(manager->Close());
        return preempted;
      });
  for (const auto& rank : ends) {
    ASSERT_OK(rank);
    EXPECT_EQ(*rank, (1 << 3) + (1 << 6));
  }
  EXPECT_THAT(Saved(), ElementsAre(3, 6));
}

}  // namespace
}  // namespace ckptdb::testing
