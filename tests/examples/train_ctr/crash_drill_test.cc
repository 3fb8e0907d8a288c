// SPDX-License-Identifier: Apache-2.0
#include "train_ctr/crash_drill.h"

#include <csignal>
#include <string>

#include "db/options.h"
#include "tests/support/status_matchers.h"

namespace train_ctr {
namespace {

using ::ckptdb::testing::StatusIs;
using ::testing::HasSubstr;
using ::testing::KilledBySignal;

TEST(CrashDrillTest, ParsesStepAndPoint) {
  ASSERT_OK_AND_ASSIGN(const CrashAt plain, ParseCrashAt("12"));
  EXPECT_EQ(plain.step, 12);
  EXPECT_EQ(plain.point, "");
  for (const absl::string_view point : ckptdb::kCrashPoints) {
    ASSERT_OK_AND_ASSIGN(const CrashAt crash,
                         ParseCrashAt("7:" + std::string(point)));
    EXPECT_EQ(crash.step, 7);
    EXPECT_EQ(crash.point, std::string(point));
  }
}

TEST(CrashDrillTest, RejectsInvalidText) {
  for (const std::string text : {"", "x", "0", "-1", "1.5", ":begin"}) {
    EXPECT_THAT(ParseCrashAt(text),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         HasSubstr("\"" + text + "\" is not STEP")));
  }
  for (const std::string point : {"", "begun", "stage:done "}) {
    EXPECT_THAT(ParseCrashAt("3:" + point),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         HasSubstr("there is no point \"" + point + "\"")));
  }
}

using CrashDrillDeathTest = ::testing::Test;

TEST(CrashDrillDeathTest, KillsAfterTheStep) {
  const CrashDrill drill(CrashAt{5, ""});
  EXPECT_FALSE(drill.at_point());
  drill.Trained(4);
  drill.Passed("stage:done");
  EXPECT_EXIT(drill.Trained(5), KilledBySignal(SIGKILL), "");
}

TEST(CrashDrillDeathTest, KillsAtThePointOfTheArmedSave) {
  CrashDrill drill(CrashAt{5, "stage:done"});
  EXPECT_TRUE(drill.at_point());
  drill.Trained(5);
  drill.Arm(4);
  drill.Passed("stage:done");
  EXPECT_OK(drill.Disarm());
  drill.Arm(5);
  drill.Passed("begin:recorded");
  EXPECT_EXIT(drill.Passed("stage:done"), KilledBySignal(SIGKILL), "");
  EXPECT_THAT(drill.Disarm(), StatusIs(absl::StatusCode::kFailedPrecondition,
                                       HasSubstr("step 5 did not pass the "
                                                 "point stage:done")));
  drill.Passed("stage:done");
}

TEST(CrashDrillTest, WithoutACrashDoesNothing) {
  CrashDrill drill(std::nullopt);
  drill.Trained(1);
  EXPECT_FALSE(drill.at_point());
  drill.Arm(1);
  drill.Passed("stage:done");
  EXPECT_OK(drill.Disarm());
}

}  // namespace
}  // namespace train_ctr
