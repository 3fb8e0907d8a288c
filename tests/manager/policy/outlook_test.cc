// SPDX-License-Identifier: Apache-2.0
// The next step that a policy may save: no step that it saves is missed.
#include "manager/policy/outlook.h"

#include <optional>
#include <random>

#include "manager/policy/save_rule.h"
#include "manager/policy/save_schedule.h"
#include "manager/policy/verdict.h"
#include "tests/support/seed.h"
#include "tests/support/test.h"

namespace ckptdb::testing {
namespace {

using internal::kNoStep;
using internal::Outlook;

constexpr int64_t kMicrosOfASecond = 1'000'000;
constexpr int64_t kTimeOfLast = 1'700'000'000 * kMicrosOfASecond;

// At that step no time has passed since `last` was saved, and no machine is
// preempted.
SavePolicy::Context WithLast(int64_t step, std::optional<int64_t> last = {}) {
  SavePolicy::Context context = {.step = step, .now_micros = kTimeOfLast};
  if (last.has_value()) context.last = StepInfo{*last, kTimeOfLast, false, {}};
  return context;
}

Outlook NextOf(const SavePolicy& policy, int64_t step,
               std::optional<int64_t> last = {}) {
  return internal::OutlookOf(policy, WithLast(step, last));
}

TEST(Outlook, NamesTheNextStepByNumber) {
  EXPECT_EQ(NextOf(SaveEveryNSteps(100), 1), (Outlook{100}));
  EXPECT_EQ(NextOf(SaveEveryNSteps(100), 99), (Outlook{100}));
  EXPECT_EQ(NextOf(SaveEveryNSteps(100), 100), (Outlook{200}));
  EXPECT_EQ(NextOf(SaveEveryNSteps(1), 7), (Outlook{8}));
  EXPECT_EQ(NextOf(SaveAtSteps({9, 3}), 2), (Outlook{3}));
  EXPECT_EQ(NextOf(SaveAtSteps({9, 3}), 3), (Outlook{9}));
  EXPECT_EQ(NextOf(SaveAtSteps({9, 3}), 9), (Outlook{kNoStep}));
  EXPECT_EQ(NextOf(SaveAtOrAfterEveryNSteps(10), 12, 10), (Outlook{20}));
  EXPECT_EQ(NextOf(SaveAtOrAfterEveryNSteps(10), 25, 10), (Outlook{26}));
  EXPECT_EQ(NextOf(SaveAtOrAfterEveryNSteps(10), 3), (Outlook{10}));
  EXPECT_EQ(NextOf(SaveInitially(), 3), (Outlook{4}));
  EXPECT_EQ(NextOf(SaveInitially(), 3, 2), (Outlook{kNoStep}));
  const auto odd = [](const SavePolicy::Context& context) {
    return context.step % 2 == 1;
  };
  EXPECT_EQ(NextOf(SaveIf("odd", odd), 3), (Outlook{4}));
  EXPECT_EQ(NextOf(!SaveEveryNSteps(2), 3), (Outlook{4}));
  EXPECT_EQ(NextOf({}, 3), (Outlook{kNoStep}));
  EXPECT_EQ(NextOf(SaveEveryNSteps(0), 3), (Outlook{kNoStep}));
}

TEST(Outlook, NamesNoStepForATime) {
  const Outlook timed{.timed = true};
  EXPECT_EQ(NextOf(SaveEveryNSeconds(60), 3, 2), timed);
  EXPECT_EQ(NextOf(SaveEveryNSeconds(60), 3), (Outlook{4, true}));
  EXPECT_EQ(NextOf(SaveContinuously(0), 3, 2), timed);
  EXPECT_EQ(NextOf(SaveOnPreemption(), 3), timed);
}

TEST(Outlook, ComposesAsPoliciesDo) {
  const SavePolicy tens = SaveEveryNSteps(10);
  const SavePolicy sixes = SaveEveryNSteps(6);
  const SavePolicy timed = SaveEveryNSeconds(60);
  EXPECT_EQ(NextOf(tens | sixes, 5, 0), (Outlook{6}));
  EXPECT_EQ(NextOf(tens & sixes, 5, 0), (Outlook{10}));
  EXPECT_EQ(NextOf(tens | timed, 5, 0), (Outlook{10, true}));
  EXPECT_EQ(NextOf(tens & timed, 5, 0), (Outlook{10}));
  EXPECT_EQ(NextOf(timed & tens, 5, 0), (Outlook{10}));
  EXPECT_EQ(NextOf(timed & SaveOnPreemption(), 5, 0), (Outlook{.timed = true}));
  EXPECT_EQ(NextOf((tens | timed) & (sixes | SaveOnPreemption()), 5, 0),
            (Outlook{6, true}));
  EXPECT_EQ(NextOf(tens & !SaveEveryNSteps(20), 5, 0), (Outlook{10}));
  EXPECT_EQ(NextOf(SaveAtSteps({}) & timed, 5, 0), (Outlook{kNoStep}));
}

TEST(Outlook, StopsAtTheHighestStep) {
  constexpr int64_t kLast = kNoStep;
  EXPECT_EQ(internal::StepsAfter(kLast - 1, 1), kLast);
  EXPECT_EQ(internal::StepsAfter(kLast, kLast), kLast);
  EXPECT_EQ(internal::NextMultiple(kLast - 1, 10), kLast);
  EXPECT_EQ(internal::NextMultiple(0, kLast), kLast);
  EXPECT_EQ(NextOf(SaveAtOrAfterEveryNSteps(3), kLast, kLast - 5),
            (Outlook{kLast}));
}

int64_t DueOf(const SaveSchedule& schedule, int64_t step,
              std::optional<int64_t> last = {}) {
  const SavePolicy::Context context = WithLast(step, last);
  return internal::NextDue(schedule, context, context.last);
}

TEST(Outlook, OfAPermanentPolicyCountsFromPermanentSteps) {
  const SaveSchedule schedule{.permanent = SaveAtOrAfterEveryNSteps(100),
                              .ephemeral = SaveAtSteps({})};
  EXPECT_EQ(internal::NextDue(schedule, WithLast(205, 205), {}), 206);
  EXPECT_EQ(
      internal::NextDue(schedule, WithLast(205, 205), WithLast(0, 200).last),
      300);
}

TEST(Outlook, OfAScheduleIsTheEarlierOfItsPolicies) {
  SaveSchedule schedule{.permanent = SaveEveryNSteps(100),
                        .ephemeral = SaveEveryNSteps(10)};
  EXPECT_EQ(DueOf(schedule, 1), 10);
  EXPECT_EQ(DueOf(schedule, 95), 100);
  schedule.ephemeral_cooldown_steps = 25;
  EXPECT_EQ(DueOf(schedule, 101, 100), 125);
  EXPECT_EQ(DueOf(schedule, 101), 110);
  EXPECT_EQ(DueOf(schedule, 190, 190), 200);
  schedule.permanent = {};
  schedule.ephemeral = SaveOnPreemption();
  EXPECT_EQ(DueOf(schedule, 101, 100), kNoStep);
  EXPECT_EQ(DueOf({}, 101), kNoStep);
}

class OutlookOfRandomPoliciesTest : public ::testing::Test {
 protected:
  int64_t Below(int64_t bound) {
    return static_cast<int64_t>(random_() % static_cast<uint64_t>(bound));
  }
  SavePolicy ByNumber() {
    switch (Below(4)) {
      case 0:
        return SaveEveryNSteps(1 + Below(15));
      case 1:
        return SaveAtOrAfterEveryNSteps(1 + Below(15));
      case 2:
        return SaveAtSteps({Below(60), Below(60), Below(60)});
      default:
        return SaveInitially();
    }
  }
  SavePolicy Leaf() {
    switch (Below(7)) {
      case 0:
        return SaveEveryNSeconds(1 + static_cast<double>(Below(9)));
      case 1:
        return SaveContinuously(1 + static_cast<double>(Below(9)));
      case 2:
        return SaveOnPreemption();
      case 3:
        return SaveIf("random", [n = 1 + Below(9)](const auto& context) {
          return context.step % n == 0 || context.preempted;
        });
      default:
        return ByNumber();
    }
  }
  SavePolicy Policy(int depth) {
    if (depth == 0) return Leaf();
    switch (Below(5)) {
      case 0:
      case 1:
        return Policy(depth - 1) | Policy(depth - 1);
      case 2:
      case 3:
        return Policy(depth - 1) & Policy(depth - 1);
      default:
        return !Policy(depth - 1);
    }
  }
  SavePolicy::Context Start() {
    const int64_t step = Below(50);
    return Below(4) == 0 ? WithLast(step) : WithLast(step, Below(step + 1));
  }
  // Returns a permanent step that may be older than the newest one, or none.
  std::optional<StepInfo> PermanentUpTo(const SavePolicy::Context& context) {
    if (!context.last.has_value() || Below(4) == 0) return std::nullopt;
    return WithLast(context.step, Below(context.last->step + 1)).last;
  }
  // The context of a later step, at any time, if wanted.
  SavePolicy::Context Later(SavePolicy::Context context, int64_t steps,
                            bool any_time) {
    context.step += steps;
    if (any_time) {
      context.now_micros += Below(12) * kMicrosOfASecond;
      context.saving = context.last.has_value() && Below(4) == 0;
      context.preempted = Below(4) == 0;
    }
    return context;
  }

  static constexpr int kPolicies = 4000;
  static constexpr int64_t kSteps = 70;

  std::mt19937_64 random_{TestSeed()};
};

// With a policy that also depends on the time, before any time has passed.
TEST_F(OutlookOfRandomPoliciesTest, MissesNoStep) {
  int64_t left_out = 0;
  for (int i = 0; i < kPolicies; ++i) {
    const SavePolicy policy = Policy(static_cast<int>(Below(4)));
    const SavePolicy::Context start = Start();
    const Outlook outlook = internal::OutlookOf(policy, start);
    ASSERT_GT(outlook.step, start.step);
    for (int64_t steps = 1; steps <= kSteps; ++steps) {
      const SavePolicy::Context later = Later(start, steps, !outlook.timed);
      if (later.step >= outlook.step) break;
      const internal::Verdict verdict = internal::Decide(policy, later);
      ASSERT_FALSE(verdict.yes) << "policy " << i << ": step " << later.step
                                << " after " << start.step << ", before "
                                << outlook.step << ": " << verdict.reason;
      ++left_out;
    }
  }
  EXPECT_GT(left_out, kPolicies);
}

TEST_F(OutlookOfRandomPoliciesTest, IsTheFirstStep_OfPoliciesByNumber) {
  for (int i = 0; i < kPolicies; ++i) {
    const SavePolicy policy =
        Below(2) == 0 ? ByNumber() : ByNumber() | ByNumber();
    const SavePolicy::Context start = Start();
    const Outlook outlook = internal::OutlookOf(policy, start);
    EXPECT_FALSE(outlook.timed);
    if (outlook.step == kNoStep) continue;
    const auto found = Later(start, outlook.step - start.step, true);
    ASSERT_TRUE(internal::Decide(policy, found).yes)
        << "policy " << i << ": step " << found.step << " after " << start.step;
  }
}

TEST_F(OutlookOfRandomPoliciesTest, MissesNoStepOfASchedule) {
  for (int i = 0; i < kPolicies; ++i) {
    SaveSchedule schedule{.permanent = Policy(1), .ephemeral = Policy(1)};
    schedule.ephemeral_cooldown_steps = Below(20);
    if (Below(5) == 0) schedule.permanent = {};
    const SavePolicy::Context start = Start();
    const std::optional<StepInfo> permanent = PermanentUpTo(start);
    const int64_t due = internal::NextDue(schedule, start, permanent);
    for (int64_t steps = 1; steps <= kSteps; ++steps) {
      const SavePolicy::Context later = Later(start, steps, false);
      if (later.step >= due) break;
      const SavePolicy::Decision decision =
          internal::Decide(schedule, later, permanent);
      ASSERT_EQ(decision.kind, SavePolicy::Kind::kNone)
          << "schedule " << i << ": step " << later.step << " after "
          << start.step << ", before " << due << ": " << decision.reason;
    }
  }
}

}  // namespace
}  // namespace ckptdb::testing
