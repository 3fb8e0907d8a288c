#include "ckptdb/manager/save_policy.h"

#include <cmath>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "ckptdb/tests/support/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ckptdb {
namespace {

using ::ckptdb::testing::StatusIs;
using ::testing::HasSubstr;

constexpr int64_t kOneSecond = 1'000'000;
// A time like today's.
constexpr int64_t kNow = 1'700'000'000 * kOneSecond;

SaveContext At(int64_t step) { return {.step = step, .now_micros = kNow}; }

// `seconds` after the newest step, 10.
SaveContext After(double seconds, bool saving = false) {
  SaveContext context = At(12);
  context.last = StepInfo{
      10, kNow - static_cast<int64_t>(std::llround(seconds * 1e6)), false, {}};
  context.saving = saving;
  return context;
}

void ExpectVerdict(const absl::StatusOr<SavePolicyPtr>& policy,
                   const SaveContext& context, bool yes,
                   const std::string& why) {
  ASSERT_OK(policy.status());
  EXPECT_EQ((*policy)->Decide(context), (Verdict{yes, why}));
}

template <typename Policy>
void ExpectNoPolicy(const Policy& policy, const std::string& words) {
  EXPECT_THAT(policy,
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(words)));
}

TEST(SavePolicy, FixedInterval) {
  const struct {
    int64_t interval;
    int64_t step;
    bool yes;
  } cases[] = {{1, 0, true},     {1, 7, true},    {5, 0, true},
               {5, 4, false},    {5, 5, true},    {5, 6, false},
               {5, 10, true},    {250, 1, false}, {250, 250, true},
               {250, 499, false}};
  for (const auto& each : cases) {
    ASSERT_OK_AND_ASSIGN(const auto policy, FixedInterval(each.interval));
    EXPECT_EQ(policy->Decide(At(each.step)).yes, each.yes)
        << each.step << " by " << each.interval;
  }
  ExpectVerdict(FixedInterval(5), At(6), false, "step 6 is no multiple of 5");
  ExpectVerdict(FixedInterval(5), At(10), true, "step 10 is a multiple of 5");
}

TEST(SavePolicy, FixedIntervalRefusesWhatIsNoInterval) {
  for (const int64_t interval :
       {int64_t{0}, int64_t{-1}, std::numeric_limits<int64_t>::min()}) {
    ExpectNoPolicy(FixedInterval(interval), "FixedInterval: interval is " +
                                                std::to_string(interval) +
                                                "; it must be at least 1");
  }
}

TEST(SavePolicy, AtOrAfterEveryNSteps) {
  const auto policy = AtOrAfterEveryNSteps(100);
  const auto after = [](int64_t last, int64_t step) {
    SaveContext context = At(step);
    context.last = StepInfo{last, kNow, false, {}};
    return context;
  };
  ExpectVerdict(policy, After(0), false, "no multiple of 100 since step 10");
  ExpectVerdict(policy, after(97, 99), false,
                "no multiple of 100 since step 97");
  ExpectVerdict(policy, after(97, 100), true,
                "step 100 is the first at or after 100");
  ExpectVerdict(policy, after(97, 103), true,
                "step 103 is the first at or after 100");
  ExpectVerdict(policy, after(100, 103), false,
                "no multiple of 100 since step 100");
  ExpectVerdict(policy, after(103, 345), true,
                "step 345 is the first at or after 300");
  // No step has been saved yet.
  ExpectVerdict(policy, At(0), true, "step 0 is the first at or after 0");
  ExpectVerdict(policy, At(1), false, "no multiple of 100 since step 0");
  ExpectVerdict(policy, At(107), true, "step 107 is the first at or after 100");
  ExpectNoPolicy(AtOrAfterEveryNSteps(0),
                 "AtOrAfterEveryNSteps: interval is 0; it must be at least 1");
}

TEST(SavePolicy, SpecificSteps) {
  ExpectVerdict(SpecificSteps({3, 0}), At(3), true,
                "step 3 is one of those that were asked for");
  ExpectVerdict(SpecificSteps({3, 0}), At(0), true,
                "step 0 is one of those that were asked for");
  ExpectVerdict(SpecificSteps({3, 0}), At(4), false,
                "step 4 is none of those that were asked for");
  ExpectVerdict(SpecificSteps({}), At(0), false,
                "step 0 is none of those that were asked for");
  ExpectNoPolicy(SpecificSteps({3, -2}), "SpecificSteps: step is -2");
}

TEST(SavePolicy, EveryNSeconds) {
  ExpectVerdict(EveryNSeconds(60), At(12), true, "no step is saved yet");
  ExpectVerdict(EveryNSeconds(60), After(59.9), false,
                "not yet 60 seconds after step 10");
  ExpectVerdict(EveryNSeconds(60), After(60), true, "60 seconds after step 10");
  ExpectVerdict(EveryNSeconds(60), After(61, /*saving=*/true), true,
                "60 seconds after step 10");
  // The clock went back.
  ExpectVerdict(EveryNSeconds(60), After(-1), true, "60 seconds after step 10");
}

TEST(SavePolicy, Continuous) {
  ExpectVerdict(Continuous(0), At(12), true, "no step is saved yet");
  ExpectVerdict(Continuous(0), After(0), true, "0 seconds after step 10");
  ExpectVerdict(Continuous(5), After(4), false,
                "not yet 5 seconds after step 10");
  ExpectVerdict(Continuous(5), After(5), true, "5 seconds after step 10");
  ExpectVerdict(Continuous(5), After(9, /*saving=*/true), false,
                "a save is in progress");
}

TEST(SavePolicy, SecondsThatAreNone) {
  const double infinity = std::numeric_limits<double>::infinity();
  for (const double seconds : {-1.0, -infinity, infinity, std::nan(""), 2e11}) {
    ExpectNoPolicy(EveryNSeconds(seconds), "EveryNSeconds: ");
    ExpectNoPolicy(Continuous(seconds), "Continuous: ");
  }
  ExpectNoPolicy(EveryNSeconds(0), "0 seconds are not above 0");
  ExpectNoPolicy(Continuous(-0.5), "-0.5 seconds are not from 0");
}

TEST(SavePolicy, InitialSave) {
  ExpectVerdict(InitialSave(), At(12), true, "no step is saved yet");
  ExpectVerdict(InitialSave(), After(1000), false, "step 10 is saved");
}

TEST(SavePolicy, OnPreemption) {
  SaveContext context = At(12);
  ExpectVerdict(OnPreemption(), context, false, "not preempted");
  context.preempted = true;
  ExpectVerdict(OnPreemption(), context, true, "preempted");
}

TEST(SavePolicy, SaveIf) {
  const auto odd = [](const SaveContext& context) {
    return context.step % 2 == 1;
  };
  ExpectVerdict(SaveIf("odd", odd), At(7), true, "odd said yes");
  ExpectVerdict(SaveIf("odd", odd), At(8), false, "odd said no");
  ExpectNoPolicy(SaveIf("", odd), "SaveIf: its name is empty");
  ExpectNoPolicy(SaveIf("none", nullptr), "SaveIf: function none is null");
}

class SaveComposition : public ::testing::Test {
 protected:
  static SavePolicyPtr Every(int64_t steps) { return *FixedInterval(steps); }
};

TEST_F(SaveComposition, Any) {
  const auto policy = AnySave({Every(2), Every(3)});
  ExpectVerdict(policy, At(6), true,
                "step 6 is a multiple of 2; step 6 is a multiple of 3");
  ExpectVerdict(policy, At(4), true, "step 4 is a multiple of 2");
  ExpectVerdict(policy, At(5), false,
                "step 5 is no multiple of 2; step 5 is no multiple of 3");
}

TEST_F(SaveComposition, All) {
  const auto policy = AllSave({Every(2), Every(3)});
  ExpectVerdict(policy, At(6), true,
                "step 6 is a multiple of 2; step 6 is a multiple of 3");
  ExpectVerdict(policy, At(4), false, "step 4 is no multiple of 3");
}

TEST_F(SaveComposition, NotWithinAll) {
  ASSERT_OK_AND_ASSIGN(const SavePolicyPtr no, NotSave(Every(4)));
  const auto policy = AllSave({Every(2), no});
  ExpectVerdict(policy, At(6), true,
                "step 6 is a multiple of 2; step 6 is no multiple of 4");
  ExpectVerdict(policy, At(8), false, "step 8 is a multiple of 4");
}

TEST_F(SaveComposition, RefusesNothingAndNull) {
  ExpectNoPolicy(AnySave({}), "AnySave: of no policies");
  ExpectNoPolicy(AllSave({}), "AllSave: of no policies");
  ExpectNoPolicy(AnySave({Every(2), nullptr}), "AnySave: policy 1 is null");
  ExpectNoPolicy(AllSave({nullptr}), "AllSave: policy 0 is null");
  ExpectNoPolicy(NotSave(nullptr), "NotSave: policy 0 is null");
}

}  // namespace
}  // namespace ckptdb
