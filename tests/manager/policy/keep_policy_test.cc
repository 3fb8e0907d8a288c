// SPDX-License-Identifier: Apache-2.0
#include "manager/policies.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <random>
#include <set>

#include "manager/policy/keep_rule.h"
#include "tests/support/seed.h"
#include "tests/support/test.h"

namespace ckptdb::testing {
namespace {

using ::ckptdb::internal::Ask;
using ::ckptdb::internal::KeepAnswer;

constexpr int64_t kSecond = 1'000'000;
constexpr int64_t kStart = 1'700'000'000 * kSecond;
const double kNan = std::nan("");

// Steps 10, 20 ...; step 10 * i was committed 10 * i seconds after kStart.
std::vector<StepInfo> Steps(size_t count) {
  std::vector<StepInfo> steps;
  for (size_t i = 1; i <= count; ++i) {
    const auto step = static_cast<int64_t>(10 * i);
    steps.push_back({step, kStart + step * kSecond, false, {}});
  }
  return steps;
}

std::vector<StepInfo> WithAuc(const std::vector<double>& auc) {
  std::vector<StepInfo> steps = Steps(auc.size());
  for (size_t i = 0; i < auc.size(); ++i) steps[i].metrics["auc"] = auc[i];
  return steps;
}

std::vector<int64_t> Kept(const KeepPolicy& policy,
                          const std::vector<StepInfo>& steps,
                          int64_t now_micros = kStart) {
  EXPECT_OK(policy.status());
  const KeepAnswer answer = Ask(policy, steps, now_micros);
  EXPECT_EQ(answer.keep.size(), steps.size());
  std::vector<int64_t> kept;
  for (size_t i = 0; i < steps.size(); ++i) {
    EXPECT_NE(answer.reason(i), "") << steps[i].step;
    if (answer.keep[i]) kept.push_back(steps[i].step);
  }
  return kept;
}

std::string Why(const KeepPolicy& policy, const std::vector<StepInfo>& steps,
                size_t at, int64_t now_micros = kStart) {
  EXPECT_OK(policy.status());
  return Ask(policy, steps, now_micros).reason(at);
}

// Expects that the policy has this error, which is also why it keeps all steps.
void ExpectInvalid(const KeepPolicy& policy, const std::string& words) {
  EXPECT_THAT(policy.status(), InvalidArgument(words));
  const std::vector<StepInfo> steps = Steps(3);
  const KeepAnswer answer = Ask(policy, steps, kStart);
  EXPECT_EQ(answer.keep, std::vector<bool>(3, true));
  EXPECT_EQ(answer.reason(1), policy.status().message());
}

TEST(KeepPolicy, KeepAllAndNoPolicy) {
  EXPECT_FALSE(KeepPolicy().has_value());
  EXPECT_TRUE(KeepAll().has_value());
  for (const KeepPolicy& policy : {KeepAll(), KeepPolicy()}) {
    EXPECT_THAT(Kept(policy, Steps(3)), ElementsAre(10, 20, 30));
    EXPECT_THAT(Kept(policy, {}), IsEmpty());
    EXPECT_EQ(Why(policy, Steps(3), 1), "all steps are kept");
  }
}

TEST(KeepPolicy, LatestN) {
  EXPECT_THAT(Kept(LatestN(0), Steps(3)), IsEmpty());
  EXPECT_THAT(Kept(LatestN(2), Steps(3)), ElementsAre(20, 30));
  EXPECT_THAT(Kept(LatestN(3), Steps(3)), ElementsAre(10, 20, 30));
  EXPECT_THAT(Kept(LatestN(std::numeric_limits<int64_t>::max()), Steps(2)),
              ElementsAre(10, 20));
  EXPECT_EQ(Why(LatestN(2), Steps(3), 0), "not among the latest 2");
  EXPECT_EQ(Why(LatestN(2), Steps(3), 1), "among the latest 2");
  ExpectInvalid(LatestN(-1), "LatestN: count is -1; it must be at least 0");
}

TEST(KeepPolicy, LatestOf) {
  const KeepPolicy grid = KeepEveryNSteps(20);
  EXPECT_THAT(Kept(LatestOf(grid, 0), Steps(7)), IsEmpty());
  EXPECT_THAT(Kept(LatestOf(grid, 2), Steps(7)), ElementsAre(40, 60));
  EXPECT_THAT(Kept(LatestOf(grid, 3), Steps(7)), ElementsAre(20, 40, 60));
  EXPECT_THAT(
      Kept(LatestOf(grid, std::numeric_limits<int64_t>::max()), Steps(7)),
      ElementsAre(20, 40, 60));
  EXPECT_EQ(Why(LatestOf(grid, 2), Steps(7), 0), "not a multiple of 20");
  EXPECT_EQ(Why(LatestOf(grid, 2), Steps(7), 1),
            "not among the latest 2 of these: a multiple of 20");
  EXPECT_EQ(Why(LatestOf(grid, 2), Steps(7), 3),
            "among the latest 2 of these: a multiple of 20");
  ExpectInvalid(LatestOf(grid, -1), "LatestOf: count is -1");
  ExpectInvalid(LatestOf({}, 1), "LatestOf: an operand is not a policy");
  EXPECT_THAT(Ask(LatestOf(BestN("auc", 1), 1), Steps(3), kStart).warning,
              HasSubstr("none of 3 steps has a metric \"auc\""));
}

TEST(KeepPolicy, KeepSteps) {
  EXPECT_THAT(Kept(KeepSteps({}), Steps(3)), IsEmpty());
  EXPECT_THAT(Kept(KeepSteps({30, 10, 99}), Steps(4)), ElementsAre(10, 30));
  EXPECT_EQ(Why(KeepSteps({30}), Steps(3), 2), "one of the listed steps");
  EXPECT_EQ(Why(KeepSteps({30}), Steps(3), 0), "not one of the listed steps");
  ExpectInvalid(KeepSteps({3, -2}), "KeepSteps: step is -2");
}

TEST(KeepPolicy, KeepEveryNSteps) {
  EXPECT_THAT(Kept(KeepEveryNSteps(20), Steps(5)), ElementsAre(20, 40));
  EXPECT_THAT(Kept(KeepEveryNSteps(1), Steps(2)), ElementsAre(10, 20));
  EXPECT_THAT(Kept(KeepEveryNSteps(7), {{0, kStart, false, {}}}),
              ElementsAre(0));
  EXPECT_EQ(Why(KeepEveryNSteps(20), Steps(2), 0), "not a multiple of 20");
  ExpectInvalid(KeepEveryNSteps(0), "KeepEveryNSteps: interval is 0");
}

std::vector<StepInfo> At(const std::vector<int64_t>& steps) {
  std::vector<StepInfo> all;
  for (const int64_t step : steps) all.push_back({step, kStart, false, {}});
  return all;
}

TEST(KeepPolicy, KeepNearestToEveryNSteps) {
  constexpr int64_t kLast = std::numeric_limits<int64_t>::max();
  const struct {
    int64_t interval;
    std::vector<int64_t> steps;
    std::vector<int64_t> kept;
  } cases[] = {
      {100, {}, {}},
      {100, {7}, {7}},
      {100, {0, 50, 100, 150, 200}, {0, 100, 200}},
      {100, {30, 90, 120, 180, 230}, {30, 90, 180, 230}},
      {100, {0, 90, 110, 200}, {0, 90, 200}},  // the earlier of two
      {100, {0, 91, 109, 200}, {0, 91, 200}},
      {100, {0, 90, 109, 200}, {0, 109, 200}},
      {100, {0, 40, 60, 70}, {0, 70}},      // 100 is not reached yet
      {100, {0, 149, 351}, {0, 149, 351}},  // none is near 200 and 300
      {1, {3, 5, 6}, {3, 5, 6}},
      {kLast, {0, 1, kLast - 1, kLast}, {0, kLast}},
      {kLast, {0, kLast}, {0, kLast}},
  };
  for (const auto& [interval, steps, kept] : cases) {
    EXPECT_EQ(Kept(KeepNearestToEveryNSteps(interval), At(steps)), kept)
        << interval << ", " << ::testing::PrintToString(steps);
  }
  const auto policy = KeepNearestToEveryNSteps(100);
  EXPECT_EQ(Why(policy, At({0, 40, 90}), 1),
            "not the nearest to a multiple of 100");
  EXPECT_EQ(Why(policy, At({0, 40, 90}), 2),
            "the nearest to a multiple of 100");
  ExpectInvalid(KeepNearestToEveryNSteps(0),
                "KeepNearestToEveryNSteps: interval is 0");
}

// Searches for each multiple, one by one.
std::vector<int64_t> PlainlyNearest(int64_t interval,
                                    const std::vector<int64_t>& steps) {
  std::set<int64_t> kept;
  for (int64_t point = 0; point < steps.back() + interval; point += interval) {
    kept.insert(*std::min_element(
        steps.begin(), steps.end(), [&](int64_t a, int64_t b) {
          return std::abs(a - point) < std::abs(b - point);
        }));
  }
  return {kept.begin(), kept.end()};
}

// Kept steps remain kept as steps are added, except the one that was the last.
TEST(KeepPolicy, NearestMatchesTheModelAndIsStable) {
  std::mt19937_64 random(TestSeed());
  for (int round = 0; round < 300; ++round) {
    const auto interval = static_cast<int64_t>(1 + random() % 20);
    std::vector<int64_t> all;
    std::vector<int64_t> retained;
    int64_t step = static_cast<int64_t>(random() % 30);
    for (int i = 0; i < 30;
         ++i, step += 1 + static_cast<int64_t>(random() % 25)) {
      all.push_back(step);
      retained.push_back(step);
      retained = Kept(KeepNearestToEveryNSteps(interval), At(retained));
      const std::vector<int64_t> plain = PlainlyNearest(interval, all);
      ASSERT_EQ(Kept(KeepNearestToEveryNSteps(interval), At(all)), plain);
      ASSERT_EQ(retained, plain) << "interval " << interval;
    }
  }
}

TEST(KeepPolicy, EveryNSecondsKeepsTheFirst) {
  EXPECT_THAT(Kept(KeepEveryNSeconds(20), Steps(6)), ElementsAre(10, 30, 50));
  EXPECT_THAT(Kept(KeepEveryNSeconds(21), Steps(6)), ElementsAre(10, 40));
  EXPECT_THAT(Kept(KeepEveryNSeconds(1000), Steps(6)), ElementsAre(10));
  EXPECT_EQ(Why(KeepEveryNSeconds(20), Steps(3), 1),
            "not 20 seconds after step 10");
  ExpectInvalid(KeepEveryNSeconds(0), "seconds is 0; it must be above 0");
  ExpectInvalid(KeepEveryNSeconds(kNan), "KeepEveryNSeconds: ");
}

TEST(KeepPolicy, EveryNSecondsKeeps_WhenTheClockWasSetBack) {
  std::vector<StepInfo> steps = Steps(4);
  steps[2].time_micros = kStart - 1000 * kSecond;
  // Step 30 counts, and step 40 is long after it.
  EXPECT_THAT(Kept(KeepEveryNSeconds(20), steps), ElementsAre(10, 30, 40));
  EXPECT_EQ(Why(KeepEveryNSeconds(20), steps, 2),
            "the clock was set back after step 10, saved at 2023-11-14 "
            "22:13:30 UTC");
}

TEST(KeepPolicy, BestN) {
  const auto steps = WithAuc({0.5, 0.9, 0.7, 0.8});
  EXPECT_THAT(Kept(BestN("auc", 2), steps), ElementsAre(20, 40));
  EXPECT_THAT(
      Kept(BestN({.metric = "auc", .count = 2, .lower_is_better = true}),
           steps),
      ElementsAre(10, 30));
  EXPECT_THAT(Kept(BestN("auc", 0), steps), IsEmpty());
  EXPECT_THAT(Kept(BestN("auc", 9), steps), ElementsAre(10, 20, 30, 40));
  EXPECT_EQ(Why(BestN("auc", 2), steps, 2),
            "auc 0.7 is number 3, not of the best 2");
  EXPECT_EQ(Why(BestN("auc", 2), steps, 1),
            "auc 0.9 is number 1 of the best 2");
}

TEST(KeepPolicy, BestNWithTies) {
  EXPECT_THAT(Kept(BestN("auc", 2), WithAuc({0.5, 0.5, 0.5})),
              ElementsAre(20, 30));
  EXPECT_THAT(
      Kept(BestN({.metric = "auc", .count = 2, .lower_is_better = true}),
           WithAuc({0.5, 0.5, 0.5})),
      ElementsAre(20, 30));
}

TEST(KeepPolicy, NanIsWorst) {
  const double infinity = std::numeric_limits<double>::infinity();
  for (const bool lower_is_better : {false, true}) {
    const auto best = BestN(
        {.metric = "auc", .count = 2, .lower_is_better = lower_is_better});
    EXPECT_THAT(Kept(best, WithAuc({kNan, 0.5, kNan, 0.1})),
                ElementsAre(20, 40));
    EXPECT_THAT(Kept(best, WithAuc({infinity, kNan, -infinity})),
                ElementsAre(10, 30));
    EXPECT_THAT(Kept(best, WithAuc({kNan, 0.5, kNan})), ElementsAre(20, 30));
  }
}

std::string WarningOf(const KeepPolicy& policy,
                      const std::vector<StepInfo>& steps) {
  EXPECT_OK(policy.status());
  return Ask(policy, steps, kStart).warning;
}

TEST(KeepPolicy, BestNWarnsOfStepsWithoutTheMetric) {
  std::vector<StepInfo> steps = WithAuc({0.1, kNan, 0.3});
  KeepPolicy::BestOptions best{.metric = "auc"};
  EXPECT_EQ(WarningOf(BestN(best), steps), "");
  steps[2].metrics.clear();
  EXPECT_EQ(WarningOf(BestN(best), steps), "")
      << "the last step's metric may follow";
  EXPECT_EQ(WarningOf(BestN(best), {}), "");
  steps[0].metrics.clear();
  const std::string stays =
      "BestN: 1 of 3 steps have no metric \"auc\" and are kept";
  EXPECT_EQ(WarningOf(BestN(best), steps), stays);
  EXPECT_EQ(WarningOf(LatestN(1) | BestN(best), steps), stays);
  EXPECT_EQ(WarningOf(BestN(best) & LatestN(1), steps), stays);
  EXPECT_EQ(WarningOf(!BestN(best), steps), stays);
  best.keep_without_metric = false;
  EXPECT_THAT(WarningOf(BestN(best), steps), HasSubstr("and are removed"));
}

// The disk would fill up, whatever the count.
TEST(KeepPolicy, BestNWarnsWhenNoStepHasTheMetric) {
  const std::vector<StepInfo> steps = Steps(3);
  KeepPolicy::BestOptions best{.metric = "auc"};
  EXPECT_EQ(
      WarningOf(BestN(best), steps),
      "BestN: none of 3 steps has a metric \"auc\", so all of them are kept; "
      "pass the metric to Step or AddMetrics, name another one, or set "
      "keep_without_metric to false");
  EXPECT_EQ(WarningOf(BestN(best), Steps(1)), "") << "the metric may follow";
  best.keep_without_metric = false;
  EXPECT_EQ(WarningOf(BestN(best), steps),
            "BestN: 2 of 3 steps have no metric \"auc\" and are removed");
}

StepRecord Listed(int64_t step, double auc) {
  StepRecord record;
  record.version = {step, 1};
  record.metrics["auc"] = auc;
  return record;
}

TEST(BestStep, IsTheFirstStepThatBestNKeeps) {
  const KeepPolicy::BestOptions best{.metric = "auc"};
  std::vector<StepRecord> steps = {Listed(1, 0.9), Listed(2, 0.4),
                                   Listed(3, 0.9), Listed(4, kNan)};
  const auto best_is = [&](const KeepPolicy::BestOptions& options) {
    const absl::StatusOr<StepRecord> found = BestStep(steps, options);
    EXPECT_OK(found.status());
    return found.ok() ? found->version.step : -1;
  };
  EXPECT_EQ(best_is(best), 3) << "the later one wins ties";
  EXPECT_EQ(best_is({.metric = "auc", .lower_is_better = true}), 2);
  steps[2].quarantined = true;
  EXPECT_EQ(best_is(best), 1);
  steps = {Listed(4, kNan), StepRecord()};
  EXPECT_EQ(best_is(best), 4);
  EXPECT_THAT(BestStep(steps, {.metric = "loss"}),
              NotFound("none of 2 steps has a metric \"loss\""));
  EXPECT_THAT(BestStep(steps, {}),
              InvalidArgument("BestStep: metric is empty"));
}

TEST(KeepPolicy, BestNHandlesStepsWithoutTheMetric) {
  auto steps = WithAuc({0.5, 0.9, 0.7, kNan});
  steps[1].metrics = {{"loss", 0.1}};
  EXPECT_THAT(Kept(BestN("auc", 1), steps), ElementsAre(20, 30));
  EXPECT_THAT(
      Kept(BestN({.metric = "auc", .count = 1, .keep_without_metric = false}),
           steps),
      ElementsAre(30));
  EXPECT_EQ(Why(BestN("auc", 1), steps, 1), "it has no auc");
  // Not even if there is room.
  EXPECT_THAT(
      Kept(BestN({.metric = "auc", .count = 9, .keep_without_metric = false}),
           steps),
      ElementsAre(10, 30, 40));
}

TEST(KeepPolicy, BestNRejectsInvalidOptions) {
  ExpectInvalid(BestN("auc", -1), "BestN: count is -1");
  ExpectInvalid(BestN("", 1), "BestN: metric is empty");
}

TEST(KeepPolicy, KeepForNSeconds) {
  const int64_t now = kStart + 40 * kSecond;
  EXPECT_THAT(Kept(KeepForNSeconds(20), Steps(4), now),
              ElementsAre(20, 30, 40));
  EXPECT_THAT(Kept(KeepForNSeconds(19.999), Steps(4), now),
              ElementsAre(30, 40));
  EXPECT_THAT(Kept(KeepForNSeconds(0), Steps(4), now), ElementsAre(40));
  // In the future, because the clock was set back.
  EXPECT_THAT(Kept(KeepForNSeconds(5), Steps(4), kStart + 12 * kSecond),
              ElementsAre(10, 20, 30, 40));
  EXPECT_EQ(Why(KeepForNSeconds(20), Steps(4), 0, now),
            "30 seconds old, more than 20");
  ExpectInvalid(KeepForNSeconds(-1), "seconds is -1; it must be at least 0");
}

TEST(KeepPolicy, KeepIf) {
  const auto policy =
      KeepIf("by thirty", [](const StepInfo& step) { return step.step == 30; });
  EXPECT_THAT(Kept(policy, Steps(4)), ElementsAre(30));
  EXPECT_EQ(Why(policy, Steps(4), 0), "by thirty returned false");
  ExpectInvalid(KeepIf("", [](const StepInfo&) { return true; }),
                "KeepIf: the name is empty");
  ExpectInvalid(KeepIf("none", nullptr), "KeepIf: function \"none\" is null");
}

TEST(KeepPolicy, KeepFunction) {
  const auto first =
      KeepFunction("first", [](absl::Span<const StepInfo> steps, int64_t) {
        std::vector<bool> keep(steps.size());
        if (!keep.empty()) keep[0] = true;
        return keep;
      });
  EXPECT_THAT(Kept(first, Steps(3)), ElementsAre(10));
  EXPECT_THAT(Kept(first, {}), IsEmpty());
  // Steps without an answer are kept.
  const auto short_one =
      KeepFunction("short", [](absl::Span<const StepInfo>, int64_t) {
        return std::vector<bool>{false};
      });
  EXPECT_THAT(Kept(short_one, Steps(3)), ElementsAre(20, 30));
  EXPECT_EQ(Why(short_one, Steps(3), 2), "short returned no answer");
  EXPECT_EQ(WarningOf(short_one, Steps(3)),
            "KeepFunction \"short\" answered for 1 of 3 steps; steps without "
            "an answer are kept");
  EXPECT_EQ(WarningOf(short_one, Steps(1)), "");
  ExpectInvalid(KeepFunction("none", nullptr),
                "KeepFunction: function \"none\" is null");
}

TEST(KeepPolicy, Compositions) {
  const KeepPolicy latest = LatestN(2);
  const KeepPolicy grid = KeepEveryNSteps(20);
  EXPECT_THAT(Kept(latest | grid, Steps(5)), ElementsAre(20, 40, 50));
  EXPECT_THAT(Kept(latest & grid, Steps(5)), ElementsAre(40));
  EXPECT_THAT(Kept(!latest, Steps(5)), ElementsAre(10, 20, 30));
  EXPECT_THAT(Kept(grid & !latest, Steps(5)), ElementsAre(20));
  EXPECT_EQ(Why(latest | grid, Steps(5), 3),
            "among the latest 2; a multiple of 20");
  EXPECT_EQ(Why(latest | grid, Steps(5), 0),
            "not among the latest 2; not a multiple of 20");
}

TEST(KeepPolicy, CompositionsOfThree) {
  const KeepPolicy any = LatestN(1) | KeepEveryNSteps(20) | KeepSteps({10});
  EXPECT_THAT(Kept(any, Steps(5)), ElementsAre(10, 20, 40, 50));
  EXPECT_EQ(
      Why(any, Steps(5), 2),
      "not among the latest 1; not a multiple of 20; not one of the listed "
      "steps");
  EXPECT_EQ(Why(any, Steps(4), 3), "among the latest 1; a multiple of 20");
  const KeepPolicy all = LatestN(4) & KeepEveryNSteps(20) & LatestN(2);
  EXPECT_THAT(Kept(all, Steps(5)), ElementsAre(40));
  EXPECT_EQ(Why(all, Steps(5), 2),
            "not a multiple of 20; not among the latest 2");
}

TEST(KeepPolicy, CompositionsCarryTheFirstError) {
  const KeepPolicy latest = LatestN(2);
  const std::string error = "KeepEveryNSteps: interval is 0";
  for (const KeepPolicy& policy :
       {KeepEveryNSteps(0) | LatestN(-1), latest & KeepEveryNSteps(0),
        latest | (latest & KeepEveryNSteps(0)), !KeepEveryNSteps(0),
        !!KeepEveryNSteps(0), LatestOf(KeepEveryNSteps(0), -1)}) {
    ExpectInvalid(policy, error);
  }
}

TEST(KeepPolicy, CompositionsRejectUnsetOperands) {
  const std::string unset = ": an operand is not a policy";
  ExpectInvalid(LatestN(1) | KeepPolicy(), "operator|" + unset);
  ExpectInvalid(KeepPolicy() & LatestN(1), "operator&" + unset);
  ExpectInvalid(!KeepPolicy(), "operator!" + unset);
}

}  // namespace
}  // namespace ckptdb::testing
