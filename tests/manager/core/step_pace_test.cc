// SPDX-License-Identifier: Apache-2.0
#include "manager/core/step_pace.h"

#include "tests/support/test.h"

namespace ckptdb::testing {
namespace {

using internal::StepPace;

class StepPaceTest : public ::testing::Test {
 protected:
  // A meeting after that many steps; the meeting itself takes a second.
  void Train(int64_t steps, absl::Duration each) {
    for (int64_t i = 0; i < steps; ++i) pace_.CountStep();
    now_ += absl::ToChronoNanoseconds(steps * each);
    pace_.OnMeeting(now_);
    now_ += std::chrono::seconds(1);
    pace_.OnMeetingEnd(now_);
  }
  int64_t Within(absl::Duration interval) const {
    return pace_.StepsWithin(interval);
  }

  StepPace pace_;
  StepPace::Clock::time_point now_;
};

TEST_F(StepPaceTest, IsUnknownBeforeTheSecondMeeting) {
  EXPECT_EQ(Within(absl::Seconds(2)), 1);
  Train(1, absl::Hours(1));
  EXPECT_EQ(Within(absl::Seconds(2)), 1);
  Train(1, absl::Seconds(1));
  EXPECT_EQ(Within(absl::Seconds(2)), 2);
}

TEST_F(StepPaceTest, CountsTheStepsThatFitInTheInterval) {
  Train(1, absl::Seconds(1));
  Train(50, absl::Milliseconds(100));
  EXPECT_EQ(Within(absl::Seconds(2)), 20);
  EXPECT_EQ(Within(absl::Milliseconds(250)), 2);
  EXPECT_EQ(Within(absl::Milliseconds(99)), 1);
  EXPECT_EQ(Within(absl::ZeroDuration()), 1);
}

TEST_F(StepPaceTest, GrowsTenfold_UpToALimit) {
  Train(1, absl::ZeroDuration());
  for (const int64_t most : {1, 10, 100}) {
    Train(most, absl::Microseconds(1));
    EXPECT_EQ(Within(absl::Hours(1)), 10 * most);
    EXPECT_EQ(Within(absl::InfiniteDuration()), 10 * most);
  }
  Train(1000, absl::ZeroDuration());
  EXPECT_EQ(Within(absl::Hours(1)), StepPace::kMaxSteps);
}

TEST_F(StepPaceTest, AssumesTheSlowerOfTwoMeasurements) {
  Train(1, absl::Seconds(1));
  Train(100, absl::Milliseconds(10));
  Train(1, absl::Milliseconds(1));
  EXPECT_EQ(Within(absl::Seconds(2)), 200);
  Train(1, absl::Milliseconds(500));
  EXPECT_EQ(Within(absl::Seconds(2)), 4);
  Train(4, absl::Milliseconds(10));
  EXPECT_EQ(Within(absl::Seconds(2)), 4);
  Train(4, absl::Milliseconds(10));
  EXPECT_EQ(Within(absl::Seconds(2)), 40);
}

// Save and other calls are meetings without a step.
TEST_F(StepPaceTest, MeetingsWithoutStepsMeasureNothing) {
  Train(1, absl::Seconds(1));
  Train(10, absl::Milliseconds(100));
  now_ += std::chrono::hours(1);
  Train(0, absl::ZeroDuration());
  Train(10, absl::Milliseconds(100));
  EXPECT_EQ(Within(absl::Seconds(2)), 20);
}

}  // namespace
}  // namespace ckptdb::testing
