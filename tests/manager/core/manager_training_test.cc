// SPDX-License-Identifier: Apache-2.0
// How a training begins and ends, and its warnings.
#include "tests/manager/manager_fixture.h"

namespace ckptdb::testing {
namespace {

class TrainingTest : public ManagerTest {
 protected:
  // Starts in a new store with the state of step 2 of another.
  void StartFromElsewhere() {
    Start();
    TrainAndClose(2);
    const std::string other = options_.path;
    options_.path = dir_.path() + "/own";
    Start();
    ASSERT_OK(manager_->Restore({.path = other}));
    ASSERT_OK(manager_->StartTraining());
    ASSERT_OK(manager_->WaitUntilFinished());
  }
};

TEST_F(TrainingTest, InitialStateIsNotSaved_WhenFirstSaveIsNever) {
  options_.save.first_save = ManagerOptions::FirstSave::kNever;
  Start();
  ASSERT_OK(manager_->StartTraining());
  ASSERT_OK(manager_->Close());
  EXPECT_THAT(Steps(), IsEmpty());
}

TEST_F(TrainingTest, StateFromAnotherStoreCountsAsRestored) {
  StartFromElsewhere();
  EXPECT_THAT(Steps(), IsEmpty());
}

TEST_F(TrainingTest, StateFromAnotherStoreIsSaved_WhenFirstSaveIsAlways) {
  options_.save.first_save = ManagerOptions::FirstSave::kAlways;
  StartFromElsewhere();
  EXPECT_THAT(Steps(), ElementsAre(manager_->global_step()));
  ASSERT_OK(manager_->StartTraining());  // already saved
}

TEST_F(TrainingTest, LastStepIsSavedOnce) {
  Start();
  ASSERT_OK(manager_->FinishTraining());
  EXPECT_THAT(Steps(), IsEmpty());
  TrainTo(5);
  ASSERT_OK(manager_->FinishTraining());
  EXPECT_THAT(Steps(), ElementsAre(2, 4, 5));
  ExpectStepHolds(5);
  EXPECT_EQ(WhySaved(5), "FinishTraining saves the last step");
  TrainTo(6);
  ASSERT_OK(manager_->FinishTraining());
  EXPECT_THAT(Steps(), ElementsAre(2, 4, 5, 6));
  EXPECT_EQ(reports_.size(), 4U);
}

// Otherwise the next run's ephemeral saves would remove it.
TEST_F(TrainingTest, LastStepBecomesPermanent) {
  options_.schedule.permanent = {};
  options_.schedule.ephemeral = SaveEveryNSteps(2);
  Start();
  TrainTo(4);
  ASSERT_OK(manager_->FinishTraining());
  ASSERT_OK(manager_->FinishTraining());
  EXPECT_THAT(Steps(), ElementsAre(4));
  EXPECT_FALSE(Record(4).ephemeral);
  Start();
  ASSERT_OK(manager_->Restore());
  TrainAndClose(8);
  EXPECT_THAT(Steps(), ElementsAre(4, 8));
  Start();
  ASSERT_OK(manager_->Restore());
  ASSERT_OK(manager_->FinishTraining());
  EXPECT_TRUE(Record(8).ephemeral) << "no step was trained";
}

TEST_F(TrainingTest, LastStepIsSavedWithTheMetricsOfItsStep) {
  Start();
  ASSERT_OK(manager_->StepTo(1, {{"auc", 0.5}}, {{"host", "a"}}));
  ASSERT_OK(manager_->FinishTraining());
  ASSERT_OK_AND_ASSIGN(const auto step, manager_->store()->OpenStep(1));
  EXPECT_THAT(step->record().metrics, ElementsAre(Pair("auc", 0.5)));
  EXPECT_THAT(step->record().user_metadata, Contains(Pair("host", "a")));
  // They are not those of a step that is restored later.
  ASSERT_OK(manager_->StepTo(3, {{"auc", 0.75}}));
  ASSERT_OK(manager_->Restore({.step = 1}));
  ASSERT_OK(manager_->StepTo(5));
  ASSERT_OK(manager_->FinishTraining());
  ASSERT_OK_AND_ASSIGN(const auto last, manager_->store()->OpenStep(5));
  EXPECT_THAT(last->record().metrics, IsEmpty());
}

TEST_F(TrainingTest, LastStepIsSavedDespiteAnEarlierError) {
  Start();
  TrainAndWait(3);
  FailSaves();
  TrainTo(4);
  FailSaves(false);
  EXPECT_THAT(manager_->FinishTraining(), Unavailable("no rows today"));
  EXPECT_THAT(Steps(), ElementsAre(2, 4));
  ExpectStepHolds(4);
}

TEST_F(TrainingTest, FailureOfTheLastSaveIsNotTolerated) {
  options_.save.tolerated_failures = 3;
  Start();
  TrainTo(1);
  FailSaves();
  EXPECT_THAT(manager_->FinishTraining(), Unavailable("no rows today"));
}

// Whatever requests a save: the schedule, the beginning, the end, a preemption.
// Existing steps are restored.
TEST_F(TrainingTest, SavingOffTurnsOffAllSaves) {
  Start();
  TrainAndClose(2);
  reports_.clear();
  options_.save.enabled = false;
  options_.save.first_save = ManagerOptions::FirstSave::kAlways;
  options_.schedule.permanent = SaveEveryNSteps(1) | SaveOnPreemption();
  Start();
  EXPECT_EQ(Restored(), 2);
  ASSERT_OK(manager_->StartTraining());
  manager_->SetPreempted();
  ASSERT_OK_AND_ASSIGN(const StepOutcome outcome, TrainStep());
  EXPECT_EQ(outcome.step, 3);
  EXPECT_EQ(outcome.decision.kind, SavePolicy::Kind::kNone);
  EXPECT_EQ(outcome.decision.reason, "ManagerOptions::save.enabled is false");
  EXPECT_FALSE(outcome.save.has_value());
  EXPECT_TRUE(manager_->preempted());
  EXPECT_EQ(WhySaved(3), "not saved: ManagerOptions::save.enabled is false");
  ASSERT_OK(manager_->FinishTraining());
  EXPECT_THAT(reports_, IsEmpty());
  EXPECT_THAT(Steps(), ElementsAre(2));
}

TEST_F(TrainingTest, SaveFails_WhenSavingIsOff) {
  options_.save.enabled = false;
  Start();
  TrainTo(3);
  EXPECT_THAT(
      manager_->Save(),
      FailedPrecondition("step 3 of store \"" + options_.path +
                         "\" is not saved: ManagerOptions::save.enabled"));
  ASSERT_OK(manager_->Close());
  EXPECT_THAT(Steps(), IsEmpty());
}

TEST_F(TrainingTest, FirstManagerSetsTheMetadataOfTheStore) {
  options_.save.store_metadata = {{"run", "a"}};
  Start();
  Start();
  EXPECT_THAT(warnings_, IsEmpty());
  options_.save.store_metadata = {{"run", "b"}};
  Start();
  EXPECT_EQ(manager_->store()->user_metadata().at("run"), "a");
  EXPECT_THAT(warnings_, ElementsAre(HasSubstr(
                             "keeps its user metadata, which differs from "
                             "ManagerOptions::save.store_metadata")));
  ASSERT_OK(manager_->store()->SetUserMetadata({}));
  options_.save.enabled = false;
  Start();
  EXPECT_THAT(manager_->store()->user_metadata(), IsEmpty());
  options_.save.enabled = true;
  options_.save.store_metadata = {{"", "no name"}};
  manager_.reset();
  EXPECT_THAT(CheckpointManager::Open(options_, &model_->state),
              InvalidArgument("metadata name"));
}

TEST_F(TrainingTest, WarnsOnceOfStepsWithoutTheBestMetric) {
  options_.retention.keep = BestN("auc", 1);
  Start();
  TrainAndWait(2);
  EXPECT_THAT(warnings_, IsEmpty());
  TrainAndClose(8);
  EXPECT_THAT(warnings_,
              ElementsAre(HasSubstr("BestN: none of 2 steps has a metric "
                                    "\"auc\", so all of them are kept; ")));
}

TEST_F(TrainingTest, DoesNotWarnOfAShortWait) {
  options_.observers.warn_waiting = absl::InfiniteDuration();
  Start();
  TrainAndClose(6);
  EXPECT_THAT(warnings_, IsEmpty());
}

}  // namespace
}  // namespace ckptdb::testing
