// The examples in the comments of manager/'s headers.
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "ckptdb/manager/coordinator.h"
#include "ckptdb/manager/keep_policy.h"
#include "ckptdb/manager/retention.h"
#include "ckptdb/manager/save_policy.h"
#include "ckptdb/manager/save_schedule.h"
#include "ckptdb/manager/verdict.h"
#include "ckptdb/schema/status.h"
#include "ckptdb/tests/support/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ckptdb {
namespace {

using ::testing::ElementsAre;

TEST(HeaderExamples, Verdict) {
  Verdict verdict = AnyOf(
      {{false, "step 7 is no multiple of 5"}, {true, "no step is saved yet"}});
  EXPECT_TRUE(verdict.yes);
  EXPECT_EQ(verdict.why, "no step is saved yet");
}

absl::StatusOr<Verdict> SavePolicyExample(int64_t now) {
  CKPTDB_ASSIGN_OR_RETURN(auto every, FixedInterval(1000));
  CKPTDB_ASSIGN_OR_RETURN(auto often, EveryNSeconds(600));
  CKPTDB_ASSIGN_OR_RETURN(SavePolicyPtr policy,
                          AnySave({every, often, OnPreemption()}));
  return policy->Decide({.step = 2000, .now_micros = now});
}

TEST(HeaderExamples, SavePolicy) {
  ASSERT_OK_AND_ASSIGN(const Verdict verdict, SavePolicyExample(0));
  EXPECT_TRUE(verdict.yes);
}

absl::StatusOr<std::vector<Verdict>> KeepPolicyExample(
    const std::vector<StepInfo>& steps, int64_t now_micros) {
  CKPTDB_ASSIGN_OR_RETURN(auto latest, LatestN(3));
  CKPTDB_ASSIGN_OR_RETURN(auto best, BestN({.count = 2, .metric = "auc"}));
  CKPTDB_ASSIGN_OR_RETURN(KeepPolicyPtr policy, AnyKeep({latest, best}));
  std::vector<Verdict> keep = policy->Decide(steps, now_micros);
  return keep;
}

TEST(HeaderExamples, KeepPolicy) {
  ASSERT_OK_AND_ASSIGN(
      const auto keep,
      KeepPolicyExample({{10, 0, false, {{"auc", 0.7}}}}, /*now_micros=*/0));
  ASSERT_EQ(keep.size(), 1);
  EXPECT_TRUE(keep[0].yes);
}

TEST(HeaderExamples, SaveSchedule) {
  SaveSchedule schedule;
  ASSERT_OK_AND_ASSIGN(schedule.permanent, FixedInterval(1000));
  ASSERT_OK_AND_ASSIGN(schedule.ephemeral, FixedInterval(100));
  SaveDecision decision = Decide(schedule, {.step = 1100});
  EXPECT_EQ(decision.kind, SaveKind::kEphemeral);
  EXPECT_EQ(decision.why, "step 1100 is a multiple of 100");
}

TEST(HeaderExamples, Retention) {
  RetentionState state;
  for (int64_t step = 1; step <= 5; ++step) {
    state.steps.push_back({step, step, false, {}});
  }
  state.newest = 5;
  std::vector<int64_t> retire;
  RetentionOptions options;
  ASSERT_OK_AND_ASSIGN(options.keep, LatestN(3));
  for (const Fate& fate : PlanRetention(options, state)) {
    if (!fate.keep.yes) retire.push_back(fate.step);
  }
  EXPECT_THAT(retire, ElementsAre(1, 2));
}

TEST(HeaderExamples, Coordinator) {
  const std::string part = "rows";
  ThreadGroup group(/*world_size=*/1);
  std::thread worker([&] {
    std::unique_ptr<Coordinator> ranks = group.Join(/*rank=*/0);
    auto parts = ranks->Gather("staged", part, absl::Seconds(60));
    ASSERT_OK(parts.status());
    EXPECT_THAT(*parts, ElementsAre("rows"));
  });
  worker.join();
}

}  // namespace
}  // namespace ckptdb
