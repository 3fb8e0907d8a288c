// SPDX-License-Identifier: Apache-2.0
// Saves that cannot begin because the disk is full or the store refuses them.
#include "db/options.h"
#include "tests/manager/sim_manager_fixture.h"

namespace ckptdb::testing {
namespace {

auto IsFull() { return ResourceExhausted("free"); }

class BeginFailuresTest : public SimManagerTest {
 protected:
  // Makes the store reserve more space than is free.
  void FillDisk() {
    ASSERT_OK(manager_->WaitUntilFinished());
    disk_.files()->SetCapacity(disk_.files()->TotalBytes());
  }
  void FreeDisk() { disk_.files()->SetCapacity(std::nullopt); }
};

TEST_F(BeginFailuresTest, ToleratesReportsAndWarnsOfAFullDisk) {
  options_.save.tolerated_failures = 2;
  Start();
  TrainTo(2);
  FillDisk();
  TrainTo(7);  // the saves of steps 4 and 6 fail
  EXPECT_THAT(TrainStep(), ResourceExhausted("save of step 8: "));
  EXPECT_OK(manager_->CheckForErrors()) << "it was returned already";
  ASSERT_EQ(reports_.size(), 4U);
  for (size_t i = 1; i < reports_.size(); ++i) {
    EXPECT_EQ(reports_[i].step, static_cast<int64_t>(2 * i + 2));
    EXPECT_EQ(reports_[i].save_kind, SavePolicy::Kind::kPermanent);
    EXPECT_THAT(reports_[i].status, IsFull());
  }
  EXPECT_THAT(
      warnings_,
      ElementsAre(HasSubstr("the save of step 4 failed, failure 1 in a "
                            "row; ManagerOptions::save.tolerated_failures "
                            "is 2"),
                  HasSubstr("the save of step 6 failed, failure 2")));
  EXPECT_THAT(WhySaved(4), HasSubstr("not saved, although step 4 is a mult"));
  FreeDisk();
  TrainAndClose(10);
  EXPECT_THAT(Steps(), ElementsAre(2, 10));
  EXPECT_EQ(reports_.back().result.kind, StepRecord::Kind::kDelta);
  ExpectRestores(10);
}

// Consecutive failures count together, whichever phase of a save they occur in.
TEST_F(BeginFailuresTest, CountTogetherWithStagingFailures) {
  options_.save.tolerated_failures = 1;
  Start();
  FailSaves();
  TrainTo(2);
  FillDisk();
  FailSaves(false);
  TrainTo(3);
  EXPECT_THAT(TrainStep(), IsFull());
}

TEST_F(BeginFailuresTest, RetryAfterSomeSteps) {
  options_.schedule.permanent = SaveEveryNSteps(4);
  options_.save.tolerated_failures = 9;
  options_.save.retry_after_steps = 1;
  Start();
  TrainTo(3);
  FillDisk();
  TrainTo(5);  // the saves of steps 4 and 5 fail
  FreeDisk();
  TrainAndWait(7);
  EXPECT_EQ(reports_.size(), 3U);
  EXPECT_THAT(Steps(), ElementsAre(6));
  EXPECT_EQ(WhySaved(6), "the save of step 5 failed and is retried");
}

TEST_F(BeginFailuresTest, AreReturnedAndReported_WhenNotTolerated) {
  for (const bool async : {false, true}) {
    options_.save.async = async;
    reports_.clear();
    Start();
    TrainTo(1);
    FillDisk();
    EXPECT_THAT(TrainStep(), IsFull());
    EXPECT_OK(manager_->CheckForErrors());
    EXPECT_EQ(reports_.size(), 1U);
    EXPECT_THAT(warnings_, IsEmpty());
    FreeDisk();
  }
}

TEST_F(BeginFailuresTest, PendingSaveReturnsAToleratedFailure) {
  options_.save.tolerated_failures = 1;
  Start();
  TrainTo(1);
  FillDisk();
  ASSERT_OK_AND_ASSIGN(const PendingSave save, manager_->Save());
  EXPECT_TRUE(save.committed_or_failed());
  EXPECT_THAT(save.WaitCommitted(), IsFull());
  EXPECT_FALSE(manager_->IsSavingInProgress());
  EXPECT_OK(manager_->WaitUntilFinished());
}

TEST_F(BeginFailuresTest, FinishTrainingReturnsAToleratedFailure) {
  options_.save.tolerated_failures = 9;
  Start();
  TrainTo(1);
  FillDisk();
  EXPECT_THAT(manager_->FinishTraining(), IsFull());
}

TEST_F(BeginFailuresTest, PreemptionStaysUnanswered) {
  options_.schedule.permanent = SaveOnPreemption();
  options_.save.tolerated_failures = 9;
  Start();
  TrainTo(1);
  FillDisk();
  manager_->SetPreempted();
  ASSERT_OK_AND_ASSIGN(StepOutcome outcome, TrainStep());
  EXPECT_TRUE(outcome.preempted);
  FreeDisk();
  ASSERT_OK_AND_ASSIGN(outcome, TrainStep());
  EXPECT_TRUE(outcome.preempted);
  ASSERT_OK(manager_->Close());
  EXPECT_THAT(Steps(), ElementsAre(3));
}

// It would be refused again: the caller must act.
TEST_F(BeginFailuresTest, RefusalIsReturnedAndNotCounted) {
  options_.save.tolerated_failures = 9;
  Start();
  TrainTo(2);
  EXPECT_THAT(manager_->Save(), AlreadyExists("step 2 exists"));
  EXPECT_FALSE(manager_->IsSavingInProgress());
  EXPECT_EQ(reports_.size(), 1U);
  EXPECT_EQ(WhySaved(2), "step 2 is a multiple of 2");
  TrainAndClose(4);
  EXPECT_THAT(Steps(), ElementsAre(2, 4));
}

}  // namespace
}  // namespace ckptdb::testing
