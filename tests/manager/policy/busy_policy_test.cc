// SPDX-License-Identifier: Apache-2.0
// How a manager treats a step that is due while a save is in progress.
#include <future>

#include "tests/manager/manager_fixture.h"

namespace ckptdb::testing {
namespace {

class BusyTest : public ManagerTest {
 protected:
  // Trains steps 1 to 4; saving step 2 ends after step 4, or during it if that
  // waits.
  absl::StatusOr<StepOutcome> FourSteps(ManagerOptions::BusyPolicy busy) {
    options_.save.busy = busy;
    Start();
    gate_.Close();
    TrainTo(3);
    std::future<void> opened;
    if (busy == ManagerOptions::BusyPolicy::kWait) {
      opened = std::async(std::launch::async, [this] { gate_.Open(); });
    }
    const auto outcome = TrainStep();
    gate_.Open();
    return outcome;
  }
  // Trains steps 1 to 4, of which step 4 is put off, and step 5.
  void Coalesce() {
    EXPECT_FALSE(FourSteps(ManagerOptions::BusyPolicy::kCoalesce)
                     .value()
                     .save.has_value());
    ASSERT_OK(manager_->WaitUntilFinished());
    TrainAndWait(5);
  }
};

TEST_F(BusyTest, WaitPolicyWaits) {
  EXPECT_TRUE(
      FourSteps(ManagerOptions::BusyPolicy::kWait).value().save.has_value());
  ASSERT_OK(manager_->Close());
  EXPECT_THAT(Steps(), ElementsAre(2, 4));
  ExpectStepHolds(4);
}

TEST_F(BusyTest, SkipPolicySkipsTheStep) {
  ASSERT_OK_AND_ASSIGN(const StepOutcome outcome,
                       FourSteps(ManagerOptions::BusyPolicy::kSkip));
  EXPECT_FALSE(outcome.save.has_value());
  EXPECT_EQ(outcome.decision.reason,
            "step 4 is a multiple of 2, but step 2 is being saved");
  TrainAndWait(5);
  EXPECT_THAT(Steps(), ElementsAre(2));
  EXPECT_EQ(WhySaved(4), "not saved: " + outcome.decision.reason);
}

TEST_F(BusyTest, CoalescePolicySavesALaterStep) {
  Coalesce();
  EXPECT_THAT(Steps(), ElementsAre(2, 5));
  ExpectStepHolds(5);
  EXPECT_THAT(WhySaved(5),
              HasSubstr("step 4 was not saved, because step 2 is"));
}

TEST_F(BusyTest, CoalescedPermanentStepStaysPermanentBesideEphemeralOnes) {
  options_.schedule.permanent = SaveAtSteps({4});
  options_.schedule.ephemeral = SaveAtSteps({2, 5, 6});
  Coalesce();
  EXPECT_FALSE(Record(5).ephemeral);
  EXPECT_THAT(WhySaved(5), HasSubstr("step 4 was not saved"));
  TrainAndWait(6);
  EXPECT_TRUE(Record(6).ephemeral);
}

TEST_F(BusyTest, EphemeralStepDoesNotReplaceACoalescedPermanentOne) {
  options_.schedule.permanent = SaveAtSteps({3});
  options_.schedule.ephemeral = SaveAtSteps({2, 4});
  Coalesce();
  EXPECT_FALSE(Record(5).ephemeral);
  EXPECT_THAT(WhySaved(5), HasSubstr("step 3 was not saved"));
}

TEST_F(BusyTest, RetryOfAnEphemeralStepDoesNotReplaceACoalescedPermanentOne) {
  options_.schedule.permanent = SaveAtSteps({4});
  options_.schedule.ephemeral = SaveAtSteps({2});
  options_.save.tolerated_failures = 1;
  options_.save.retry_after_steps = 3;
  options_.save.busy = ManagerOptions::BusyPolicy::kCoalesce;
  Start();
  gate_.Close();
  TrainTo(1);
  ASSERT_OK_AND_ASSIGN(StepOutcome second, TrainStep());
  TrainTo(4);
  second.save.value().Cancel();
  gate_.Open();
  ASSERT_OK(manager_->WaitUntilFinished());
  TrainAndWait(5);
  EXPECT_THAT(Steps(), ElementsAre(5));
  EXPECT_FALSE(Record(5).ephemeral);
  TrainAndWait(8);
  EXPECT_THAT(Steps(), ElementsAre(5)) << "the permanent save replaces a retry";
}

TEST_F(BusyTest, FailPolicyReturnsAnError) {
  EXPECT_THAT(FourSteps(ManagerOptions::BusyPolicy::kFail),
              FailedPrecondition("step 4 cannot be saved: step 2 is being"));
  ASSERT_OK(manager_->WaitUntilFinished());
  TrainAndClose(6);
  EXPECT_THAT(Steps(), ElementsAre(2, 6));
}

class RequestedSaveTest
    : public BusyTest,
      public ::testing::WithParamInterface<ManagerOptions::BusyPolicy> {
 protected:
  // Trains to `step`; saving step 2 ends when a later call waits for it.
  void TrainWhileSaving(int64_t step) {
    options_.save.busy = GetParam();
    options_.observers.cancelled = [this] {
      if (waits_) gate_.Open();
      return false;
    };
    Start();
    gate_.Close();
    TrainTo(step);
    ASSERT_TRUE(manager_->IsSavingInProgress());
    waits_ = true;
  }

 private:
  bool waits_ = false;
};

TEST_P(RequestedSaveTest, SaveWaitsForTheSaveInProgress) {
  TrainWhileSaving(3);
  ASSERT_OK_AND_ASSIGN(PendingSave save, manager_->Save());
  ASSERT_OK(save.WaitCommitted());
  EXPECT_THAT(Steps(), ElementsAre(2, 3));
  ExpectStepHolds(3);
}

TEST_P(RequestedSaveTest, StepThatIsBeingSavedAlreadyExists) {
  TrainWhileSaving(2);
  EXPECT_THAT(manager_->Save(), AlreadyExists("step 2"));
  ASSERT_OK(manager_->Close());
  EXPECT_THAT(Steps(), ElementsAre(2));
}

TEST_P(RequestedSaveTest, OtherPoliciesThanWaitPutNothingOff) {
  TrainWhileSaving(3);
  ASSERT_OK(manager_->Save());
  ASSERT_OK(manager_->WaitUntilFinished());
  TrainAndWait(5);
  EXPECT_THAT(Steps(), ElementsAre(2, 3, 4));
}

INSTANTIATE_TEST_SUITE_P(
    Policies, RequestedSaveTest,
    ::testing::Values(ManagerOptions::BusyPolicy::kWait,
                      ManagerOptions::BusyPolicy::kSkip,
                      ManagerOptions::BusyPolicy::kCoalesce));

TEST_F(BusyTest, RequestedSaveReplacesTheCoalescedOne) {
  EXPECT_OK(FourSteps(ManagerOptions::BusyPolicy::kCoalesce));
  ASSERT_OK(manager_->Save());
  TrainAndWait(5);
  EXPECT_THAT(Steps(), ElementsAre(2, 4));
}

TEST_F(BusyTest, FailPolicyAppliesToRequestedSavesAndNamesTheRemedy) {
  options_.save.busy = ManagerOptions::BusyPolicy::kFail;
  Start();
  gate_.Close();
  TrainTo(3);
  EXPECT_THAT(manager_->Save(),
              FailedPrecondition("step 3 cannot be saved: step 2 is being "
                                 "saved; call WaitUntilFinished"));
  gate_.Open();
  ASSERT_OK(manager_->WaitUntilFinished());
  ASSERT_OK(manager_->Save());
  ASSERT_OK(manager_->Close());
  EXPECT_THAT(Steps(), ElementsAre(2, 3));
}

// The metrics of a save are known even if nobody has waited for it.
TEST_F(BusyTest, DecisionUsesTheMetricsOfTheSaveInProgress) {
  Metrics last;
  options_.schedule.permanent =
      SaveIf("first", [&](const SavePolicy::Context& context) {
        if (context.last.has_value()) last = context.last->metrics;
        return !context.last.has_value();
      });
  gate_.Close();
  Start();
  ASSERT_OK(TrainStep({{"auc", 0.5}}));
  ASSERT_OK(TrainStep({{"auc", 0.6}}));
  gate_.Open();
  ASSERT_OK(manager_->Close());
  EXPECT_EQ(last, (Metrics{{"auc", 0.5}}));
}

}  // namespace
}  // namespace ckptdb::testing
