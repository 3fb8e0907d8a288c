// SPDX-License-Identifier: Apache-2.0
#include "manager/policies.h"

#include <cmath>
#include <limits>

#include "manager/policy/save_rule.h"
#include "tests/support/test.h"

namespace ckptdb::testing {
namespace {

using ::ckptdb::internal::Verdict;

constexpr int64_t kOneSecond = 1'000'000;
// A time like today's.
constexpr int64_t kNow = 1'700'000'000 * kOneSecond;

SavePolicy::Context At(int64_t step) {
  return {.step = step, .now_micros = kNow};
}

// `seconds` after the newest step, 10.
SavePolicy::Context After(double seconds, bool saving = false) {
  SavePolicy::Context context = At(12);
  context.last = StepInfo{
      10, kNow - static_cast<int64_t>(std::llround(seconds * 1e6)), false, {}};
  context.saving = saving;
  return context;
}

void Expect(const SavePolicy& policy, const SavePolicy::Context& context,
            bool yes, const std::string& why) {
  EXPECT_OK(policy.status());
  EXPECT_EQ(internal::Decide(policy, context), (Verdict{yes, why}));
}

// Expects that the policy has this error, which is also why it saves nothing.
void ExpectError(const SavePolicy& policy, const std::string& words) {
  EXPECT_THAT(policy.status(), InvalidArgument(words));
  EXPECT_EQ(internal::Decide(policy, At(0)),
            (Verdict{false, std::string(policy.status().message())}));
}

TEST(SavePolicy, SaveEveryNSteps) {
  const struct {
    int64_t interval;
    int64_t step;
    bool yes;
  } cases[] = {{1, 0, true},     {1, 7, true},    {5, 0, true},
               {5, 4, false},    {5, 5, true},    {5, 6, false},
               {5, 10, true},    {250, 1, false}, {250, 250, true},
               {250, 499, false}};
  for (const auto& each : cases) {
    const SavePolicy policy = SaveEveryNSteps(each.interval);
    EXPECT_EQ(internal::Decide(policy, At(each.step)).yes, each.yes)
        << each.step << " by " << each.interval;
  }
  Expect(SaveEveryNSteps(5), At(6), false, "step 6 is not a multiple of 5");
  Expect(SaveEveryNSteps(5), At(10), true, "step 10 is a multiple of 5");
}

TEST(SavePolicy, RejectsInvalidIntervals) {
  for (const int64_t interval :
       {int64_t{0}, int64_t{-1}, std::numeric_limits<int64_t>::min()}) {
    ExpectError(SaveEveryNSteps(interval), "SaveEveryNSteps: interval is " +
                                               std::to_string(interval) +
                                               "; it must be at least 1");
  }
}

TEST(SavePolicy, SaveAtOrAfterEveryNSteps) {
  const auto policy = SaveAtOrAfterEveryNSteps(100);
  const auto after = [](int64_t last, int64_t step) {
    SavePolicy::Context context = At(step);
    context.last = StepInfo{last, kNow, false, {}};
    return context;
  };
  Expect(policy, After(0), false, "no multiple of 100 since step 10");
  Expect(policy, after(97, 99), false, "no multiple of 100 since step 97");
  Expect(policy, after(97, 100), true, "step 100 is the first at or after 100");
  Expect(policy, after(97, 103), true, "step 103 is the first at or after 100");
  Expect(policy, after(100, 103), false, "no multiple of 100 since step 100");
  Expect(policy, after(103, 345), true,
         "step 345 is the first at or after 300");
  // No step has been saved yet.
  Expect(policy, At(0), true, "step 0 is the first at or after 0");
  Expect(policy, At(1), false, "no multiple of 100 since step 0");
  Expect(policy, At(107), true, "step 107 is the first at or after 100");
  ExpectError(SaveAtOrAfterEveryNSteps(0),
              "SaveAtOrAfterEveryNSteps: interval is 0; it must be at least 1");
}

TEST(SavePolicy, SaveAtSteps) {
  Expect(SaveAtSteps({3, 0}), At(3), true, "step 3 is one of the listed steps");
  Expect(SaveAtSteps({3, 0}), At(0), true, "step 0 is one of the listed steps");
  Expect(SaveAtSteps({3, 0}), At(4), false,
         "step 4 is not one of the listed steps");
  Expect(SaveAtSteps({}), At(0), false,
         "step 0 is not one of the listed steps");
  ExpectError(SaveAtSteps({3, -2}), "SaveAtSteps: step is -2");
}

TEST(SavePolicy, SaveEveryNSeconds) {
  Expect(SaveEveryNSeconds(60), At(12), true, "no step is saved yet");
  Expect(SaveEveryNSeconds(60), After(59.9), false,
         "not yet 60 seconds after step 10");
  Expect(SaveEveryNSeconds(60), After(60), true, "60 seconds after step 10");
  Expect(SaveEveryNSeconds(60), After(61, /*saving=*/true), true,
         "60 seconds after step 10");
  // The clock was set back.
  Expect(
      SaveEveryNSeconds(60), After(-1), true,
      "the clock was set back after step 10, saved at 2023-11-14 22:13:21 UTC");
}

TEST(SavePolicy, SaveContinuously) {
  Expect(SaveContinuously(0), At(12), true, "no step is saved yet");
  Expect(SaveContinuously(0), After(0), true, "0 seconds after step 10");
  Expect(SaveContinuously(5), After(4), false,
         "not yet 5 seconds after step 10");
  Expect(SaveContinuously(5), After(5), true, "5 seconds after step 10");
  Expect(SaveContinuously(5), After(9, /*saving=*/true), false,
         "a save is in progress");
}

TEST(SavePolicy, RejectsInvalidSeconds) {
  const double infinity = std::numeric_limits<double>::infinity();
  for (const double seconds : {-1.0, -infinity, infinity, std::nan(""), 2e11}) {
    ExpectError(SaveEveryNSeconds(seconds), "SaveEveryNSeconds: ");
    ExpectError(SaveContinuously(seconds), "SaveContinuously: ");
  }
  ExpectError(SaveEveryNSeconds(0),
              "seconds is 0; it must be above 0 and at most 1e+11");
  ExpectError(SaveContinuously(-0.5),
              "seconds is -0.5; it must be at least 0 and at most 1e+11");
}

TEST(SavePolicy, SaveInitially) {
  Expect(SaveInitially(), At(12), true, "no step is saved yet");
  Expect(SaveInitially(), After(1000), false, "step 10 is saved");
  SavePolicy::Context ephemeral = At(12);
  ephemeral.history = [] { return std::vector<StepInfo>{{7, 0, true, {}}}; };
  Expect(SaveInitially(), ephemeral, false, "step 7 is saved");
}

TEST(SavePolicy, SaveOnPreemption) {
  SavePolicy::Context context = At(12);
  Expect(SaveOnPreemption(), context, false, "not preempted");
  context.preempted = true;
  Expect(SaveOnPreemption(), context, true, "preempted");
}

TEST(SavePolicy, SaveIf) {
  const auto odd = [](const SavePolicy::Context& context) {
    return context.step % 2 == 1;
  };
  Expect(SaveIf("odd", odd), At(7), true, "odd returned true");
  Expect(SaveIf("odd", odd), At(8), false, "odd returned false");
  ExpectError(SaveIf("", odd), "SaveIf: the name is empty");
  ExpectError(SaveIf("none", nullptr), "SaveIf: function \"none\" is null");
}

TEST(SaveComposition, SavesByBothOrEither) {
  const SavePolicy two = SaveEveryNSteps(2);
  const SavePolicy three = SaveEveryNSteps(3);
  const std::string both =
      "step 6 is a multiple of 2; step 6 is a multiple of 3";
  Expect(two | three, At(6), true, both);
  Expect(two | three, At(4), true, "step 4 is a multiple of 2");
  Expect(two | three, At(5), false,
         "step 5 is not a multiple of 2; step 5 is not a multiple of 3");
  Expect(two & three, At(6), true, both);
  Expect(two & three, At(4), false, "step 4 is not a multiple of 3");
  const SavePolicy any = two | three | SaveAtSteps({9});
  Expect(any, At(6), true, both);
  Expect(any, At(9), true,
         "step 9 is a multiple of 3; step 9 is one of the listed steps");
  Expect(any, At(7), false,
         "step 7 is not a multiple of 2; step 7 is not a multiple of 3; step "
         "7 is not one of the listed steps");
  const SavePolicy but = two & !SaveEveryNSteps(4);
  Expect(but, At(6), true,
         "step 6 is a multiple of 2; step 6 is not a multiple of 4");
  Expect(but, At(8), false, "step 8 is a multiple of 4");
}

TEST(SaveComposition, CarriesTheFirstError) {
  const SavePolicy every = SaveEveryNSteps(1);
  const std::string error = "SaveEveryNSteps: interval is 0";
  for (const SavePolicy& policy :
       {SaveEveryNSteps(0) | SaveEveryNSeconds(-1), every & SaveEveryNSteps(0),
        every | (every & SaveEveryNSteps(0)), !SaveEveryNSteps(0),
        !!SaveEveryNSteps(0)}) {
    ExpectError(policy, error);
  }
}

TEST(SaveComposition, RejectsUnsetOperands) {
  const SavePolicy every = SaveEveryNSteps(1);
  ExpectError(every | SavePolicy(), "operator|: an operand is not a policy");
  ExpectError(SavePolicy() & every, "operator&: an operand is not a policy");
  ExpectError(!SavePolicy(), "operator!: an operand is not a policy");
}

TEST(SavePolicy, NoPolicySavesNothing) {
  EXPECT_FALSE(SavePolicy().has_value());
  EXPECT_TRUE(SaveInitially().has_value());
  Expect({}, At(0), false, "no policy is set");
}

}  // namespace
}  // namespace ckptdb::testing
