// SPDX-License-Identifier: Apache-2.0
#include "manager/policy/save_schedule.h"

#include <optional>

#include "manager/policy/verdict.h"
#include "tests/support/test.h"

namespace ckptdb::testing {
namespace {

using ::ckptdb::internal::CheckSchedule;

// Permanent every 100 steps and at step 7, ephemeral every 10.
class SaveScheduleTest : public ::testing::Test {
 protected:
  SaveScheduleTest() {
    schedule_.permanent = SaveEveryNSteps(100) | SaveAtSteps({7});
    schedule_.ephemeral = SaveEveryNSteps(10);
  }

  // The newest step is permanent.
  SavePolicy::Decision At(int64_t step,
                          std::optional<int64_t> last = {}) const {
    return AtAfter(step, last, last);
  }
  SavePolicy::Decision AtAfter(int64_t step, std::optional<int64_t> last,
                               std::optional<int64_t> permanent) const {
    SavePolicy::Context context;
    context.step = step;
    context.last = Saved(last);
    return internal::Decide(schedule_, context, Saved(permanent));
  }
  static std::optional<StepInfo> Saved(std::optional<int64_t> step) {
    if (!step.has_value()) return std::nullopt;
    return StepInfo{*step, 0, false, {}};
  }

  SaveSchedule schedule_;
};

TEST_F(SaveScheduleTest, PermanentTakesPrecedenceOverEphemeral) {
  EXPECT_EQ(At(7).kind, SavePolicy::Kind::kPermanent);
  EXPECT_EQ(At(100).kind, SavePolicy::Kind::kPermanent);
  EXPECT_EQ(At(10).kind, SavePolicy::Kind::kEphemeral);
  EXPECT_EQ(At(110).kind, SavePolicy::Kind::kEphemeral);
  EXPECT_EQ(At(111).kind, SavePolicy::Kind::kNone);
  EXPECT_EQ(At(10).reason, "step 10 is a multiple of 10");
  EXPECT_EQ(At(7).reason, "step 7 is one of the listed steps");
  EXPECT_EQ(
      At(8).reason,
      "not permanent: step 8 is not a multiple of 100; step 8 is not one of "
      "the listed steps; not ephemeral: step 8 is not a multiple "
      "of 10");
}

TEST_F(SaveScheduleTest, EitherPolicyMayBeUnset) {
  schedule_.permanent = {};
  EXPECT_EQ(At(100).kind, SavePolicy::Kind::kEphemeral);
  EXPECT_EQ(At(7).kind, SavePolicy::Kind::kNone);
  schedule_.ephemeral = {};
  EXPECT_EQ(At(100), (SavePolicy::Decision{SavePolicy::Kind::kNone,
                                           "schedule.permanent is not set"}));
}

TEST_F(SaveScheduleTest, NeverSavesTheNewestOrAnOlderStep) {
  EXPECT_EQ(At(100, 100), (SavePolicy::Decision{
                              SavePolicy::Kind::kNone,
                              "step 100 is not after step 100, the newest"}));
  EXPECT_EQ(At(100, 200).kind, SavePolicy::Kind::kNone);
  EXPECT_EQ(At(100, 99).kind, SavePolicy::Kind::kPermanent);
}

TEST_F(SaveScheduleTest, PermanentPolicyCountsFromPermanentSteps) {
  schedule_.permanent = SaveAtOrAfterEveryNSteps(100);
  EXPECT_EQ(AtAfter(203, 201, 101).kind, SavePolicy::Kind::kPermanent);
  EXPECT_EQ(AtAfter(203, 202, 201).kind, SavePolicy::Kind::kNone);
  EXPECT_EQ(AtAfter(203, 202, {}).kind, SavePolicy::Kind::kPermanent);
  schedule_.ephemeral = SaveAtOrAfterEveryNSteps(10);
  EXPECT_EQ(AtAfter(215, 211, 201).kind, SavePolicy::Kind::kNone);
  EXPECT_EQ(AtAfter(225, 211, 201).kind, SavePolicy::Kind::kEphemeral);
}

TEST_F(SaveScheduleTest, CooldownAppliesOnlyToEphemeralSaves) {
  schedule_.ephemeral_cooldown_steps = 15;
  EXPECT_EQ(At(110, 100).kind, SavePolicy::Kind::kNone);
  EXPECT_EQ(At(110, 100).reason,
            "not ephemeral, although step 110 is a multiple of 10: step 100 "
            "was saved less than 15 steps before");
  EXPECT_EQ(At(110, 96).kind, SavePolicy::Kind::kNone);
  EXPECT_EQ(At(110, 95).kind, SavePolicy::Kind::kEphemeral);
  EXPECT_EQ(At(120, 100).kind, SavePolicy::Kind::kEphemeral);
  EXPECT_EQ(At(200, 199).kind, SavePolicy::Kind::kPermanent);
  // Nothing was saved yet.
  EXPECT_EQ(At(10).kind, SavePolicy::Kind::kEphemeral);
}

TEST_F(SaveScheduleTest, VetoAppliesOnlyToEphemeralSaves) {
  schedule_.veto_ephemeral = [](int64_t step) {
    return step < 150 ? std::string("warming up") : "";
  };
  EXPECT_EQ(
      At(110, 100),
      (SavePolicy::Decision{SavePolicy::Kind::kNone,
                            "not ephemeral, although step 110 is a multiple of "
                            "10: warming up"}));
  EXPECT_EQ(At(100, 90).kind, SavePolicy::Kind::kPermanent);
  EXPECT_EQ(At(150, 100).kind, SavePolicy::Kind::kEphemeral);
}

TEST_F(SaveScheduleTest, RejectsANegativeCooldown) {
  EXPECT_OK(CheckSchedule(schedule_));
  EXPECT_OK(CheckSchedule({}));
  schedule_.ephemeral_cooldown_steps = -1;
  EXPECT_THAT(
      CheckSchedule(schedule_),
      InvalidArgument(
          "schedule: ephemeral_cooldown_steps is -1; it must be at least 0"));
}

TEST_F(SaveScheduleTest, RejectsPoliciesWithAnErrorAndSavesNothing) {
  schedule_.ephemeral = SaveEveryNSeconds(0);
  EXPECT_THAT(CheckSchedule(schedule_),
              InvalidArgument("schedule.ephemeral: SaveEveryNSeconds: "));
  schedule_.permanent = !SaveEveryNSteps(0);
  EXPECT_THAT(CheckSchedule(schedule_),
              InvalidArgument("schedule.permanent: SaveEveryNSteps: "));
  EXPECT_EQ(At(100).kind, SavePolicy::Kind::kNone);
}

TEST_F(SaveScheduleTest, NamesOfKinds) {
  EXPECT_EQ(SaveKindName(SavePolicy::Kind::kNone), "none");
  EXPECT_EQ(SaveKindName(SavePolicy::Kind::kPermanent), "permanent");
  EXPECT_EQ(SaveKindName(SavePolicy::Kind::kEphemeral), "ephemeral");
}

const internal::Verdict kYes{true, "a"};
const internal::Verdict kAlso{true, "b"};
const internal::Verdict kNo{false, "c"};
const internal::Verdict kNeither{false, "d"};

TEST(Verdict, AnyOf) {
  EXPECT_EQ(internal::AnyOf(kNo, kYes), kYes);
  EXPECT_EQ(internal::AnyOf(kYes, kNo), kYes);
  EXPECT_EQ(internal::AnyOf(kYes, kAlso), (internal::Verdict{true, "a; b"}));
  EXPECT_EQ(internal::AnyOf(kNo, kNeither), (internal::Verdict{false, "c; d"}));
  EXPECT_EQ(internal::AnyOf(
                internal::AnyOf(internal::AnyOf(kNo, kYes), kNeither), kAlso),
            (internal::Verdict{true, "a; b"}));
}

TEST(Verdict, AllOf) {
  EXPECT_EQ(internal::AllOf(kNo, kYes), kNo);
  EXPECT_EQ(internal::AllOf(kYes, kNo), kNo);
  EXPECT_EQ(internal::AllOf(kYes, kAlso), (internal::Verdict{true, "a; b"}));
  EXPECT_EQ(internal::AllOf(
                internal::AllOf(internal::AllOf(kNo, kYes), kNeither), kAlso),
            (internal::Verdict{false, "c; d"}));
}

TEST(Verdict, Negate) {
  EXPECT_EQ(internal::Negate(kYes), (internal::Verdict{false, "a"}));
  EXPECT_EQ(internal::Negate(kNo), (internal::Verdict{true, "c"}));
}

}  // namespace
}  // namespace ckptdb::testing
