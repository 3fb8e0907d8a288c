// SPDX-License-Identifier: Apache-2.0
// The steps of a branch that was abandoned by restoring an older step: pinned
// ones, kept ones, and the saves beside them.
#include "tests/manager/manager_fixture.h"

namespace ckptdb::testing {
namespace {

class AbandonedStepsTest : public ManagerTest {
 protected:
  void SetUp() override {
    ManagerTest::SetUp();
    options_.observers.warn_waiting = absl::InfiniteDuration();
  }
  void Restart() {
    ASSERT_OK(manager_->Close());
    warnings_.clear();
    Start();
  }
  void RestoreStep(int64_t step) {
    ASSERT_OK(manager_->Restore({.step = step}));
    ASSERT_EQ(manager_->global_step(), step);
  }
  // Saves steps 2, 4, 6 and 8, pins some of them, and restores step 4.
  void GoBackBehindPins(const std::vector<int64_t>& pinned) {
    Start();
    TrainAndWait(8);
    for (const int64_t step : pinned) ASSERT_OK(manager_->store()->Pin(step));
    ASSERT_NO_FATAL_FAILURE(Restart());
    ASSERT_NO_FATAL_FAILURE(RestoreStep(4));
  }
  // A new process restores the step saved last.
  void ExpectNextRunRestores(int64_t step) {
    ASSERT_NO_FATAL_FAILURE(Restart());
    EXPECT_EQ(Restored(), step);
  }
  std::vector<int64_t> FinishedSteps() {
    EXPECT_OK(manager_->WaitUntilFinished());
    return Steps();
  }
};

TEST_F(AbandonedStepsTest, StepAfterAPinnedOneIsSavedInstead) {
  ASSERT_NO_FATAL_FAILURE(GoBackBehindPins({6}));
  EXPECT_THAT(warnings_,
              ElementsAre(AllOf(HasSubstr("step 4 was restored"),
                                HasSubstr("steps [6]"), HasSubstr("pinned"),
                                HasSubstr("ckptdb unpin"))));
  TrainTo(5);
  const SavePolicy::Decision foreseen = manager_->ShouldSave(6).value();
  model_->Train(6);
  ASSERT_OK_AND_ASSIGN(const StepOutcome skipped, manager_->Step());
  EXPECT_FALSE(skipped.save.has_value());
  EXPECT_THAT(skipped.decision.reason, HasSubstr("step 6 of an abandoned"));
  EXPECT_EQ(foreseen.kind, SavePolicy::Kind::kNone);
  EXPECT_EQ(foreseen.reason, skipped.decision.reason);
  EXPECT_EQ(warnings_.back(), skipped.decision.reason);
  TrainTo(12);
  EXPECT_THAT(FinishedSteps(), ElementsAre(2, 4, 6, 7, 8, 10, 12));
  for (const int64_t step : {6, 7, 8, 12}) ExpectStepHolds(step);
  ASSERT_NO_FATAL_FAILURE(ExpectNextRunRestores(12));
  EXPECT_THAT(warnings_, IsEmpty());
}

TEST_F(AbandonedStepsTest, StepAfterAPinnedPermanentOneIsPermanent) {
  options_.schedule.ephemeral = SaveEveryNSteps(1);
  ASSERT_NO_FATAL_FAILURE(GoBackBehindPins({6}));
  TrainAndWait(7);
  EXPECT_FALSE(Record(7).ephemeral);
  EXPECT_THAT(WhySaved(7), HasSubstr("step 6 of an abandoned"));
}

TEST_F(AbandonedStepsTest, StepAfterAPinnedOneWaitsForTheSaveInProgress) {
  ASSERT_NO_FATAL_FAILURE(GoBackBehindPins({6}));
  options_.schedule.permanent =
      SaveIf("5, 6 and 8", [this](const SavePolicy::Context& context) {
        // Saving step 5 is in progress until step 7 is decided on.
        if (context.step == 7) gate_.Open();
        return context.step == 5 || context.step == 6 || context.step == 8;
      });
  ASSERT_NO_FATAL_FAILURE(Restart());
  ASSERT_NO_FATAL_FAILURE(RestoreStep(4));
  gate_.Close();
  TrainTo(8);
  EXPECT_THAT(FinishedSteps(), ElementsAre(2, 4, 5, 6, 7, 8));
}

TEST_F(AbandonedStepsTest, AllPinnedStepsAreSkipped) {
  options_.schedule.permanent = SaveEveryNSteps(1);
  ASSERT_NO_FATAL_FAILURE(GoBackBehindPins({5, 6, 8}));
  TrainTo(9);
  EXPECT_THAT(FinishedSteps(), ElementsAre(1, 2, 3, 4, 5, 6, 7, 8, 9));
  ASSERT_OK_AND_ASSIGN(const StepRecord seven, manager_->store()->FindStep(7));
  ASSERT_OK_AND_ASSIGN(const StepRecord nine, manager_->store()->FindStep(9));
  EXPECT_EQ(seven.parent.step, 4);
  EXPECT_EQ(nine.parent.step, 7);
}

TEST_F(AbandonedStepsTest,
       NextRunRestoresTheTrainingRatherThanALaterPinnedStep) {
  ASSERT_NO_FATAL_FAILURE(GoBackBehindPins({8}));
  TrainTo(6);
  EXPECT_THAT(FinishedSteps(), ElementsAre(2, 4, 6, 8));
  ASSERT_NO_FATAL_FAILURE(ExpectNextRunRestores(6));
  EXPECT_THAT(warnings_, ElementsAre(HasSubstr("steps [8]")));
  TrainTo(10);
  EXPECT_THAT(FinishedSteps(), ElementsAre(2, 4, 6, 8, 9, 10));
  ExpectStepHolds(10);
}

TEST_F(AbandonedStepsTest, OnlyPinnedStepsOfAKeptBranchAreSkipped) {
  options_.restore.abandoned = SaveSpec::Abandoned::kKeep;
  ASSERT_NO_FATAL_FAILURE(GoBackBehindPins({6}));
  TrainTo(10);
  EXPECT_THAT(FinishedSteps(), ElementsAre(2, 4, 6, 7, 8, 10));
  EXPECT_TRUE(Record(6).pinned);
}

// The caller has requested this very step, so it is an error.
TEST_F(AbandonedStepsTest, SaveFails_WhenTheStepIsPinned) {
  ASSERT_NO_FATAL_FAILURE(GoBackBehindPins({6}));
  TrainTo(6);
  const auto is_pinned = FailedPrecondition("step 6 is pinned");
  EXPECT_THAT(manager_->Save(), is_pinned);
  EXPECT_THAT(manager_->FinishTraining(), is_pinned);
  ASSERT_OK(manager_->store()->Unpin(6));
  EXPECT_OK(manager_->FinishTraining());
  EXPECT_THAT(Steps(), ElementsAre(2, 4, 6));
}

TEST_F(AbandonedStepsTest, UnpinnedStepIsOverwritten) {
  ASSERT_NO_FATAL_FAILURE(GoBackBehindPins({8}));
  TrainAndWait(6);
  ASSERT_OK(manager_->store()->Unpin(8));
  TrainTo(8);
  EXPECT_THAT(FinishedSteps(), ElementsAre(2, 4, 6, 8));
  EXPECT_EQ(Record(8).parent.step, 6);
}

// After a fallback nobody is there to unpin the damaged step.
TEST_F(AbandonedStepsTest, QuarantinedStepIsReplacedAndStaysPinned) {
  Start();
  TrainAndWait(6);
  ASSERT_OK(manager_->store()->Pin(6));
  ASSERT_OK(manager_->store()->Quarantine(6));
  ASSERT_NO_FATAL_FAILURE(ExpectNextRunRestores(4));
  EXPECT_THAT(warnings_, IsEmpty());
  TrainTo(6);
  ASSERT_OK(manager_->FinishTraining());
  EXPECT_TRUE(Record(6).pinned);
  EXPECT_FALSE(Record(6).quarantined);
  ASSERT_NO_FATAL_FAILURE(ExpectNextRunRestores(6));
}

// A quarantined step was not known as abandoned when an older one was restored.
TEST_F(AbandonedStepsTest, StepUnquarantinedDuringTrainingStays) {
  Start();
  TrainAndWait(4);
  ASSERT_OK(manager_->store()->Quarantine(4));
  ASSERT_NO_FATAL_FAILURE(Restart());
  ASSERT_NO_FATAL_FAILURE(RestoreStep(2));
  TrainTo(3);
  ASSERT_OK(manager_->store()->Unquarantine(4));
  TrainTo(8);
  EXPECT_THAT(FinishedSteps(), ElementsAre(2, 4, 5, 6, 8));
  EXPECT_THAT(WhySaved(4),
              HasSubstr("step 4 exists and belongs to another branch"));
  EXPECT_EQ(Record(5).parent.step, 2);
  for (const int64_t step : {4, 8}) ExpectStepHolds(step);
  ASSERT_NO_FATAL_FAILURE(ExpectNextRunRestores(8));
}

TEST_F(AbandonedStepsTest, QuarantineOfTheParentDoesNotBlockSaves) {
  Start();
  TrainAndWait(4);
  ASSERT_OK(manager_->store()->Quarantine(4));
  TrainTo(8);
  EXPECT_THAT(FinishedSteps(), ElementsAre(2, 4, 6, 8));
  EXPECT_EQ(Record(6).kind, StepRecord::Kind::kFull);
  ExpectStepHolds(8);
}

TEST_F(AbandonedStepsTest, LatestNCountsAKeptBranchSeparately) {
  options_.restore.abandoned = SaveSpec::Abandoned::kKeep;
  options_.retention.keep = LatestN(3);
  Start();
  TrainAndWait(12);
  ASSERT_THAT(Steps(), ElementsAre(8, 10, 12));
  options_.schedule.permanent = SaveAtSteps({9, 11, 13, 15});
  ASSERT_NO_FATAL_FAILURE(Restart());
  ASSERT_NO_FATAL_FAILURE(RestoreStep(8));
  TrainTo(11);
  EXPECT_THAT(FinishedSteps(), ElementsAre(8, 9, 10, 11, 12));
  TrainTo(15);
  EXPECT_THAT(FinishedSteps(), ElementsAre(10, 11, 12, 13, 15));
  EXPECT_EQ(manager_->Explain(12).value().kept,
            "kept: on another branch: among the latest 3");
  // All abandoned branches share one limit.
  options_.schedule.permanent = SaveAtSteps({14, 16});
  ASSERT_NO_FATAL_FAILURE(Restart());
  ASSERT_NO_FATAL_FAILURE(RestoreStep(11));
  TrainTo(16);
  EXPECT_THAT(FinishedSteps(), ElementsAre(11, 12, 13, 14, 15, 16));
}

// A save policy must not count the steps of an abandoned branch.
TEST_F(AbandonedStepsTest, HistoryContainsOnlyTheTrainingsStepsInLaterRuns) {
  std::vector<int64_t> seen;
  options_.restore.abandoned = SaveSpec::Abandoned::kKeep;
  Start();
  TrainTo(8);
  options_.schedule.permanent = SaveAtSteps({5, 9});
  ASSERT_NO_FATAL_FAILURE(Restart());
  ASSERT_NO_FATAL_FAILURE(RestoreStep(4));
  TrainTo(9);
  options_.schedule.permanent =
      SaveIf("history", [&](const SavePolicy::Context& context) {
        seen.clear();
        for (const StepInfo& step : context.history()) {
          seen.push_back(step.step);
        }
        return false;
      });
  ASSERT_NO_FATAL_FAILURE(ExpectNextRunRestores(9));
  TrainTo(10);
  EXPECT_THAT(seen, ElementsAre(2, 4, 5, 9));
}

}  // namespace
}  // namespace ckptdb::testing
