// SPDX-License-Identifier: Apache-2.0
// The manager's clock: ManagerOptions::observers.now_micros is used for
// planning and recorded, and intervals are measured between the begins of
// saves.
#include "tests/manager/manager_fixture.h"

namespace ckptdb::testing {
namespace {

constexpr int64_t kClockSecond = 1'000'000;
constexpr int64_t kClockHour = 3600 * kClockSecond;

class ManagerClockTest : public ManagerTest {
 protected:
  // Trains a step at that second, and waits for its save.
  void TrainAt(double second) {
    now_micros_ = static_cast<int64_t>(second * kClockSecond);
    ASSERT_OK(TrainStep());
    ASSERT_OK(manager_->WaitUntilFinished());
  }
};

TEST_F(ManagerClockTest, KeepsEveryThirdHourlySave) {
  options_.schedule.permanent = SaveEveryNSteps(1);
  options_.retention.keep = LatestN(2) | KeepEveryNSeconds(3 * 3600);
  Start();
  for (int64_t hour = 1; hour <= 10; ++hour) {
    if (hour == 6) {  // continue in another process
      Start();
      ASSERT_OK(manager_->Restore());
    }
    now_micros_ = hour * kClockHour;
    TrainAndWait(hour);
  }
  EXPECT_THAT(Steps(), ElementsAre(1, 4, 7, 9, 10));
  for (const StepRecord& record : Records()) {
    EXPECT_EQ(record.committed_at_micros, record.version.step * kClockHour);
    EXPECT_EQ(record.save_micros, 0);
  }
}

TEST_F(ManagerClockTest, EphemeralSavesDoNotDelayPermanentOnes) {
  options_.schedule.permanent = SaveEveryNSeconds(4);
  options_.schedule.ephemeral = SaveEveryNSeconds(2);
  options_.retention.keep_ephemeral = 100;
  Start();
  for (int second = 0; second < 10; ++second) TrainAt(second);
  std::vector<int64_t> permanent;
  for (const StepRecord& record : Records()) {
    if (!record.ephemeral) permanent.push_back(record.version.step);
  }
  EXPECT_THAT(Steps(), ElementsAre(1, 3, 5, 7, 9));
  EXPECT_THAT(permanent, ElementsAre(1, 5, 9));
}

TEST_F(ManagerClockTest, RemovedPermanentStepStillDelaysTheNextOne) {
  options_.schedule.permanent = SaveEveryNSeconds(4);
  options_.schedule.ephemeral = SaveEveryNSeconds(2);
  options_.retention.keep = LatestN(0);
  Start();
  for (int second = 0; second < 8; ++second) {
    TrainAt(second);
    const StepRecord newest = Records().back();
    EXPECT_EQ(newest.ephemeral, second % 4 >= 2) << second;
  }
  EXPECT_THAT(Steps(), ElementsAre(7));
}

TEST_F(ManagerClockTest, PermanentSaveInProgressDelaysTheNextOne) {
  options_.schedule.permanent = SaveEveryNSeconds(4);
  options_.schedule.ephemeral = SaveEveryNSeconds(2);
  options_.save.busy = ManagerOptions::BusyPolicy::kSkip;
  Start();
  TrainAt(0);
  TrainAt(2);
  gate_.Close();
  now_micros_ = 4 * kClockSecond;
  ASSERT_OK(TrainStep());
  now_micros_ = 5 * kClockSecond;
  ASSERT_OK_AND_ASSIGN(const StepOutcome outcome, TrainStep());
  EXPECT_THAT(outcome.decision.reason,
              HasSubstr("not permanent: not yet 4 seconds after step 3"));
  gate_.Open();
}

// Step 1 is begun at second 10 and durable at 11.5.
TEST_F(ManagerClockTest, SaveDurationDoesNotExtendTheInterval) {
  options_.schedule.permanent = SaveEveryNSeconds(2);
  Start();
  gate_.Close();
  now_micros_ = 10 * kClockSecond;
  ASSERT_OK(TrainStep());
  now_micros_ += 3 * kClockSecond / 2;
  gate_.Open();
  ASSERT_OK(manager_->WaitUntilFinished());
  TrainAt(11.9);
  TrainAt(12);
  TrainAt(13.9);
  TrainAt(14);
  EXPECT_THAT(Steps(), ElementsAre(1, 3, 5));
  EXPECT_EQ(Record(1).committed_at_micros,
            11 * kClockSecond + kClockSecond / 2);
  EXPECT_EQ(Record(1).save_micros, 3 * kClockSecond / 2);
}

TEST_F(ManagerClockTest, IntervalStartsWhenASaveInProgressBegan) {
  options_.schedule.permanent = SaveEveryNSeconds(2);
  options_.save.busy = ManagerOptions::BusyPolicy::kSkip;
  Start();
  gate_.Close();
  now_micros_ = 10 * kClockSecond;
  ASSERT_OK(TrainStep());
  now_micros_ = 12 * kClockSecond - 1;
  EXPECT_EQ(TrainStep().value().decision.reason,
            "not yet 2 seconds after step 1");
  now_micros_ = 12 * kClockSecond;
  EXPECT_EQ(TrainStep().value().decision.reason,
            "2 seconds after step 1, but step 1 is being saved");
  gate_.Open();
  ASSERT_OK(manager_->Close());
}

// Steps 1 and 2 are begun 3 seconds apart, and durable 2.5 seconds apart.
TEST_F(ManagerClockTest, RetentionMeasuresFromBeginToBegin) {
  options_.schedule.permanent = SaveEveryNSteps(1);
  options_.retention.keep = KeepEveryNSeconds(3);
  Start();
  gate_.Close();
  now_micros_ = 10 * kClockSecond;
  ASSERT_OK(TrainStep());
  now_micros_ += kClockSecond / 2;
  gate_.Open();
  ASSERT_OK(manager_->WaitUntilFinished());
  TrainAt(13);
  TrainAt(14);
  EXPECT_THAT(Steps(), ElementsAre(1, 2, 3));
  TrainAt(15);
  EXPECT_THAT(Steps(), ElementsAre(1, 2, 4));
}

}  // namespace
}  // namespace ckptdb::testing
