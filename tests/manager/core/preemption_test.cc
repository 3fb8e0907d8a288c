// SPDX-License-Identifier: Apache-2.0
// A preemption: signaled to one rank, agreed on by all at one step, ended by
// saving that step, and repeatable.
#include <future>
#include <random>

#include "tests/manager/manager_fixture.h"
#include "tests/manager/run_ranks.h"
#include "tests/manager/test_options.h"
#include "tests/support/seed.h"

namespace ckptdb::testing {
namespace {

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
  // Saves ephemeral step 2, which the preempted step 3 makes permanent.
  void PromoteStep2() {
    options_.schedule.ephemeral = SaveEveryNSteps(2);
    options_.save.preemption_grace = absl::ZeroDuration();
    Start();
    TrainAndWait(2);
    manager_->SetPreempted();
    ASSERT_TRUE(StepIsPreempted());
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
  EXPECT_TRUE(TrainStep().value().preempted);
  EXPECT_FALSE(TrainStep().value().preempted);
  gate_.Open();
  ASSERT_OK(manager_->Close());
  EXPECT_THAT(Steps(), ElementsAre(1));
}

TEST_F(PreemptionTest, StaysUnanswered_WhenItsSaveFails) {
  options_.save.tolerated_failures = 1;
  options_.observers.on_warning = [](const std::string&) {};
  Start();
  FailSaves();
  manager_->SetPreempted();
  EXPECT_TRUE(StepIsPreempted());
  FailSaves(false);
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

TEST_F(PreemptionTest, NextStepIsSavedAfterAnEphemeralOne) {
  options_.schedule.ephemeral = SaveEveryNSteps(2);
  Start();
  TrainAndWait(2);
  EXPECT_FALSE(manager_->preempted());
  manager_->SetPreempted();
  EXPECT_EQ(TrainStep().value().decision.reason, "preempted");
  ASSERT_OK(manager_->WaitUntilFinished());
  EXPECT_THAT(Steps(), ElementsAre(2, 3));
  EXPECT_FALSE(Record(3).ephemeral);
}

TEST_F(PreemptionTest, NewestEphemeralStepIsPromoted_WhenTimeIsShort) {
  options_.schedule.ephemeral = SaveEveryNSteps(2);
  options_.save.preemption_grace = absl::ZeroDuration();
  Start();
  TrainAndWait(2);
  manager_->SetPreempted();
  const std::string reason = "step 2 becomes permanent instead";
  ASSERT_OK_AND_ASSIGN(const auto asked, manager_->ShouldSave(3));
  EXPECT_EQ(asked.kind, SavePolicy::Kind::kNone);
  EXPECT_THAT(asked.reason, HasSubstr(reason));
  EXPECT_TRUE(Record(2).ephemeral) << "ShouldSave promotes no step";
  ASSERT_OK_AND_ASSIGN(const StepOutcome outcome, TrainStep());
  EXPECT_TRUE(outcome.preempted);
  EXPECT_FALSE(outcome.save.has_value());
  EXPECT_THAT(outcome.decision.reason, HasSubstr(reason));
  ASSERT_OK(manager_->FinishTraining());
  EXPECT_THAT(Steps(), ElementsAre(2));
  EXPECT_FALSE(Record(2).ephemeral);
  EXPECT_FALSE(StepIsPreempted()) << "step 2 is permanent instead";
  ASSERT_OK(manager_->FinishTraining());
  EXPECT_THAT(Steps(), ElementsAre(2, 4));
}

TEST_F(PreemptionTest, NewestStepIsPromoted_WhenNoPolicySavesThePreemptedOne) {
  options_.schedule.permanent = SaveAtSteps({100});
  options_.schedule.ephemeral = SaveEveryNSteps(2);
  options_.save.preemption_grace = absl::ZeroDuration();
  Start();
  TrainAndWait(2);
  manager_->SetPreempted();
  ASSERT_OK_AND_ASSIGN(const auto asked, manager_->ShouldSave(3));
  ASSERT_OK_AND_ASSIGN(const StepOutcome outcome, TrainStep());
  EXPECT_TRUE(outcome.preempted);
  EXPECT_THAT(outcome.decision.reason, HasSubstr("step 2 becomes permanent"));
  EXPECT_EQ(asked.reason, outcome.decision.reason);
  ASSERT_OK(manager_->FinishTraining());
  EXPECT_THAT(Steps(), ElementsAre(2));
  EXPECT_FALSE(Record(2).ephemeral);
}

// The step that becomes permanent is the one being saved.
TEST_F(PreemptionTest, FinishTrainingPromotesTheStepBeingSaved) {
  options_.schedule.permanent = SaveAtSteps({100});
  options_.schedule.ephemeral = SaveEveryNSteps(2);
  options_.retention.keep_ephemeral = 2;
  options_.save.preemption_grace = absl::ZeroDuration();
  Start();
  TrainAndWait(2);
  gate_.Close();
  TrainTo(4);
  manager_->SetPreempted();
  ASSERT_OK_AND_ASSIGN(const StepOutcome outcome, TrainStep());
  EXPECT_TRUE(outcome.preempted);
  EXPECT_TRUE(Record(2).ephemeral);
  gate_.Open();
  ASSERT_OK(manager_->FinishTraining());
  EXPECT_THAT(Steps(), ElementsAre(2, 4));
  EXPECT_TRUE(Record(2).ephemeral);
  EXPECT_FALSE(Record(4).ephemeral);
  EXPECT_FALSE(StepIsPreempted()) << "step 4 is permanent instead";
}

TEST_F(PreemptionTest, LastStepIsSaved_WhenTrainingContinuesAfterAPromotion) {
  PromoteStep2();
  ASSERT_EQ(Restored(), 2);
  ASSERT_OK(manager_->StepTo(3));
  ASSERT_OK(manager_->FinishTraining());
  EXPECT_THAT(Steps(), ElementsAre(2, 3));
}

TEST_F(PreemptionTest, LastStepIsSaved_WhenStepsAreAbandonedAfterAPromotion) {
  PromoteStep2();
  ASSERT_OK(manager_->AbandonSteps());
  ASSERT_OK(manager_->FinishTraining());
  EXPECT_THAT(Steps(), ElementsAre(3));
}

class PreemptionRanksTest : public ManagerTest {
 protected:
  static constexpr uint32_t kRanks = 3;

  // Runs `train` on each rank, and returns its numbers.
  std::vector<int64_t> Run(
      const std::function<absl::StatusOr<int64_t>(
          uint32_t rank, CheckpointManager* manager)>& train) {
    ManagerOptions options = TestOptions(options_.path);
    options.schedule.permanent = SaveOnPreemption();
    options.ranks.notice_interval = options_.ranks.notice_interval;
    std::vector<int64_t> numbers(kRanks);
    const auto epoch = [&](uint32_t rank, ModelState* model) {
      return model->AddValue("epoch", &numbers[rank]);
    };
    EXPECT_THAT(RunManagers(kRanks, options, epoch,
                            [&](uint32_t rank, auto* manager) -> absl::Status {
                              CKPTDB_ASSIGN_OR_RETURN(numbers[rank],
                                                      train(rank, manager));
                              return manager->Close();
                            }),
                Each(IsOk()));
    return numbers;
  }
};

// Whenever and wherever the signal arrives: without this agreement, ranks left
// their loops at different steps and lost the save.
TEST_F(PreemptionRanksTest, AllRanksStopAtTheSameStep) {
  std::mt19937_64 random(TestSeed());
  for (int run = 0; run < 15; ++run) {
    options_.path = absl::StrCat(dir_.path(), "/", run);
    options_.ranks.notice_interval = absl::Milliseconds(run % 3 * 50);
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
          return manager->global_step();
        });
    signal.join();
    EXPECT_GT(left[0], after);
    EXPECT_THAT(left, Each(left[0]));
    EXPECT_THAT(Steps(), ElementsAre(left[0]));
  }
}

TEST_F(PreemptionRanksTest, NewestStepBecomesPermanentOnce) {
  ManagerOptions options = TestOptions(options_.path);
  options.schedule = {.ephemeral = SaveEveryNSteps(2)};
  options.save.preemption_grace = absl::ZeroDuration();
  options.ranks.notice_interval = absl::ZeroDuration();
  std::vector<int64_t> epochs(kRanks);
  const auto epoch = [&](uint32_t rank, ModelState* model) {
    return model->AddValue("epoch", &epochs[rank]);
  };
  const auto train = [](uint32_t rank,
                        CheckpointManager* manager) -> absl::Status {
    for (int64_t step = 1; step <= 4; ++step) {
      if (rank == 2 && step == 3) manager->SetPreempted();
      CKPTDB_ASSIGN_OR_RETURN(const StepOutcome outcome, manager->Step());
      CKPTDB_RETURN_IF_ERROR(manager->WaitUntilFinished());
      EXPECT_EQ(outcome.preempted, step == 3);
      EXPECT_EQ(outcome.save.has_value(), step % 2 == 0);
      if (step >= 3) CKPTDB_RETURN_IF_ERROR(manager->FinishTraining());
    }
    return manager->Close();
  };
  EXPECT_THAT(RunManagers(kRanks, options, epoch, train), Each(IsOk()));
  EXPECT_THAT(Steps(), ElementsAre(2, 4));
  for (const StepRecord& record : Records()) EXPECT_FALSE(record.ephemeral);
}

TEST_F(PreemptionRanksTest, MayRepeatOnAnotherRank) {
  options_.ranks.notice_interval = absl::ZeroDuration();
  const auto preempted_at = Run(
      [](uint32_t rank, CheckpointManager* manager) -> absl::StatusOr<int64_t> {
        int64_t preempted = 0;  // as bits, by step
        while (manager->global_step() < 8) {
          if (rank == 2 && manager->global_step() == 2) manager->SetPreempted();
          if (rank == 1 && manager->global_step() == 5) manager->SetPreempted();
          CKPTDB_ASSIGN_OR_RETURN(const StepOutcome outcome, manager->Step());
          CKPTDB_RETURN_IF_ERROR(manager->WaitUntilFinished());
          if (outcome.preempted) preempted |= int64_t{1} << outcome.step;
        }
        return preempted;
      });
  EXPECT_THAT(preempted_at, Each((1 << 3) + (1 << 6)));
  EXPECT_THAT(Steps(), ElementsAre(3, 6));
}

}  // namespace
}  // namespace ckptdb::testing
