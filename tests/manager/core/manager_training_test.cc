// SPDX-License-Identifier: Apache-2.0
// How a training begins and ends, and its warnings.
#include <gmock/gmock.h>

#include "tests/manager/manager_fixture.h"

namespace ckptdb::testing {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pair;

class TrainingTest : public ManagerTest {
 protected:
  void SetUp() override {
    ManagerTest::SetUp();
    options_.observers.on_warning = [this](const std::string& warning) {
      warnings_.push_back(warning);
    };
  }
  // Starts in a new store with the state of step 2 of another.
  void StartFromElsewhere() {
    Start();
    TrainTo(2);
    ASSERT_OK(manager_->Close());
    RestoreRequest request;
    request.path = options_.path;
    options_.path = dir_.path() + "/own";
    Start();
    ASSERT_OK(manager_->Restore(request));
    ASSERT_OK(manager_->StartTraining());
    ASSERT_OK(manager_->WaitUntilFinished());
  }

  std::vector<std::string> warnings_;
};

TEST_F(TrainingTest, InitialStateIsSavedUnlessRestored) {
  Start();
  ASSERT_OK(manager_->StartTraining());
  TrainTo(2);
  ASSERT_OK(manager_->Close());
  EXPECT_THAT(Steps(), ElementsAre(0, 2));
  ExpectStepHolds(0);
  Start();
  ASSERT_OK(manager_->Restore());
  ASSERT_OK(manager_->StartTraining());
  ASSERT_OK(manager_->Close());
  EXPECT_THAT(Steps(), ElementsAre(0, 2));
}

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
  ASSERT_OK_AND_ASSIGN(const StepExplanation story, manager_->Explain(5));
  EXPECT_EQ(story.saved, "FinishTraining saves the last step");
  TrainTo(6);
  ASSERT_OK(manager_->FinishTraining());
  EXPECT_THAT(Steps(), ElementsAre(2, 4, 5, 6));
  EXPECT_EQ(reports_.size(), 4U);
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
  TrainTo(3);
  ASSERT_OK(manager_->WaitUntilFinished());
  model_->users.FailWith(absl::UnavailableError("no rows today"));
  TrainTo(4);
  model_->users.FailWith(absl::OkStatus());
  EXPECT_THAT(
      manager_->FinishTraining(),
      StatusIs(absl::StatusCode::kUnavailable, HasSubstr("no rows today")));
  EXPECT_THAT(Steps(), ElementsAre(2, 4));
  ExpectStepHolds(4);
}

TEST_F(TrainingTest, FailureOfTheLastSaveIsNotTolerated) {
  options_.save.tolerated_failures = 3;
  Start();
  TrainTo(1);
  model_->users.FailWith(absl::UnavailableError("no rows today"));
  EXPECT_THAT(
      manager_->FinishTraining(),
      StatusIs(absl::StatusCode::kUnavailable, HasSubstr("no rows today")));
}

// Whatever requests a save: the schedule, the beginning, the end, a preemption.
// Existing steps are restored.
TEST_F(TrainingTest, SavingOffTurnsOffAllSaves) {
  Start();
  TrainTo(2);
  ASSERT_OK(manager_->Close());
  reports_.clear();
  options_.save.enabled = false;
  options_.save.first_save = ManagerOptions::FirstSave::kAlways;
  options_.schedule.permanent = SaveEveryNSteps(1) | SaveOnPreemption();
  Start();
  ASSERT_OK_AND_ASSIGN(const RestoreReport restored, manager_->Restore());
  EXPECT_EQ(restored.version.step, 2);
  ASSERT_OK(manager_->StartTraining());
  manager_->SetPreempted();
  ASSERT_OK_AND_ASSIGN(const StepOutcome outcome, TrainStep());
  EXPECT_EQ(outcome.step, 3);
  EXPECT_EQ(outcome.decision.kind, SavePolicy::Kind::kNone);
  EXPECT_EQ(outcome.decision.reason, "ManagerOptions::save.enabled is false");
  EXPECT_FALSE(outcome.save.has_value());
  EXPECT_TRUE(manager_->preempted());
  ASSERT_OK_AND_ASSIGN(const StepExplanation story, manager_->Explain(3));
  EXPECT_EQ(story.saved, "not saved: ManagerOptions::save.enabled is false");
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
      StatusIs(absl::StatusCode::kFailedPrecondition,
               HasSubstr("step 3 of store \"" + options_.path +
                         "\" is not saved: ManagerOptions::save.enabled")));
  ASSERT_OK(manager_->Close());
  EXPECT_THAT(Steps(), IsEmpty());
}

TEST_F(TrainingTest, WarnsOfAToleratedFailure) {
  options_.save.tolerated_failures = 1;
  Start();
  model_->users.FailWith(absl::UnavailableError("no rows today"));
  TrainTo(2);
  ASSERT_OK(manager_->WaitUntilFinished());
  EXPECT_THAT(
      warnings_,
      ElementsAre(HasSubstr(
          "the save of step 2 failed, failure 1 in a row; "
          "ManagerOptions::save.tolerated_failures is 1; the next save "
          "includes its changes: UNAVAILABLE: table \"user\": no rows today")));
  TrainTo(4);
  EXPECT_FALSE(manager_->Close().ok());
  EXPECT_EQ(warnings_.size(), 1U) << "an error needs no warning";
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
  EXPECT_THAT(
      CheckpointManager::Open(options_, &model_->state).status(),
      StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("metadata name")));
}

TEST_F(TrainingTest, WarnsOnceOfStepsWithoutTheBestMetric) {
  options_.retention.keep = BestN("auc", 1);
  Start();
  TrainTo(2);
  ASSERT_OK(manager_->WaitUntilFinished());
  EXPECT_THAT(warnings_, IsEmpty());
  TrainTo(8);
  ASSERT_OK(manager_->Close());
  EXPECT_THAT(warnings_,
              ElementsAre(HasSubstr("BestN: none of 2 steps has a metric "
                                    "\"auc\", so all of them are kept; ")));
}

TEST_F(TrainingTest, WarnsOfASaveThatWaited) {
  options_.observers.warn_waiting = absl::ZeroDuration();
  // Saving step 1 continues once someone waits for it.
  options_.schedule.permanent =
      SaveIf("opener", [this](const SavePolicy::Context& context) {
        if (context.saving) gate_.Open();
        return true;
      });
  Start();
  gate_.Close();
  TrainTo(1);
  EXPECT_THAT(warnings_, IsEmpty());
  TrainTo(2);
  ASSERT_OK(manager_->Close());
  EXPECT_THAT(warnings_, ElementsAre(HasSubstr("the save of step 2 waited ")));
  EXPECT_THAT(Steps(), ElementsAre(1, 2));
}

TEST_F(TrainingTest, DoesNotWarnOfAShortWait) {
  options_.observers.warn_waiting = absl::InfiniteDuration();
  Start();
  TrainTo(6);
  ASSERT_OK(manager_->Close());
  EXPECT_THAT(warnings_, IsEmpty());
}

}  // namespace
}  // namespace ckptdb::testing
