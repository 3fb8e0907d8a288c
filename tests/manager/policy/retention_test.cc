// SPDX-License-Identifier: Apache-2.0
#include "manager/policy/retention.h"

#include <algorithm>
#include <cmath>
#include <random>
#include <set>

#include "manager/manager_options.h"
#include "tests/support/seed.h"
#include "tests/support/status_matchers.h"
#include "tests/support/test.h"

namespace ckptdb::testing {
namespace {

using ::ckptdb::internal::CheckRetention;
using ::ckptdb::internal::PlanRemoval;
using ::ckptdb::internal::PlanRetention;
using ::ckptdb::internal::PlanStep;
using ::ckptdb::internal::RetentionDecision;
using ::ckptdb::internal::RetentionState;

constexpr int64_t kMicros = 1'000'000;

// Returns steps 1 to `count`; those in `ephemeral` are ephemeral.
RetentionState StateOf(int64_t count, const std::set<int64_t>& ephemeral = {}) {
  RetentionState state;
  for (int64_t step = 1; step <= count; ++step) {
    state.steps.push_back({step, step * kMicros, ephemeral.contains(step), {}});
  }
  state.newest = count;
  state.now_micros = count * kMicros;
  return state;
}

RetentionOptions Latest(int64_t count) { return {.keep = LatestN(count)}; }

std::vector<int64_t> Gone(const RetentionOptions& options,
                          const RetentionState& state) {
  std::vector<int64_t> gone;
  std::vector<RetentionDecision> removed;
  for (const RetentionDecision& decision : PlanRetention(options, state)) {
    EXPECT_NE(decision.reason, "");
    EXPECT_EQ(PlanStep(options, state, decision.step), decision);
    if (decision.stays) continue;
    gone.push_back(decision.step);
    removed.push_back(decision);
  }
  EXPECT_EQ(PlanRemoval(options, state), removed);
  EXPECT_EQ(PlanStep(options, state, -1), std::nullopt);
  return gone;
}

TEST(Retention, KeepsAllByDefault) {
  EXPECT_THAT(PlanRetention({}, {}), IsEmpty());
  EXPECT_THAT(Gone({}, StateOf(4)), IsEmpty());
}

TEST(Retention, RemovesStepsThatThePolicyDoesNotKeep) {
  EXPECT_THAT(Gone(Latest(2), StateOf(4)), ElementsAre(1, 2));
  EXPECT_EQ(PlanRetention(Latest(2), StateOf(3))[0],
            (RetentionDecision{1, false, "not among the latest 2"}));
}

TEST(Retention, KeepsTheNewest) {
  EXPECT_THAT(Gone(Latest(0), StateOf(3)), ElementsAre(1, 2));
  EXPECT_EQ(PlanRetention(Latest(0), StateOf(3))[2],
            (RetentionDecision{3, true, "the newest"}));
  // Even if it is not the highest: training continued from an older step.
  RetentionState state = StateOf(3);
  state.newest = 2;
  EXPECT_THAT(Gone(Latest(0), state), ElementsAre(1, 3));
}

TEST(Retention, KeepsHeldSteps) {
  RetentionState state = StateOf(4, {2});
  state.held = {{1, "pinned"}, {2, "being read"}};
  RetentionOptions options = Latest(1);
  options.keep_ephemeral = 0;
  EXPECT_THAT(Gone(options, state), ElementsAre(3));
  EXPECT_EQ(PlanRetention(options, state)[0],
            (RetentionDecision{1, true, "pinned"}));
}

TEST(Retention, CountsOtherBranchesSeparately) {
  RetentionState state = StateOf(8, {5, 6, 7});
  state.newest = 4;
  state.others = {3, 5, 6, 8};
  // The training has 1, 2, 4 and the ephemeral 7; the other branches have 3, 8
  // and the ephemeral 5 and 6.
  EXPECT_THAT(Gone(Latest(1), state), ElementsAre(1, 2, 3, 5));
  EXPECT_THAT(Gone(Latest(2), state), ElementsAre(1, 5));
  EXPECT_EQ(PlanRetention(Latest(1), state)[2],
            (RetentionDecision{3, false,
                               "on another branch: not among the latest 1"}));
  EXPECT_EQ(
      PlanRetention(Latest(1), state)[7],
      (RetentionDecision{8, true, "on another branch: among the latest 1"}));
  state.held = {{3, "pinned"}};
  EXPECT_THAT(Gone(Latest(1), state), ElementsAre(1, 2, 5));
}

TEST(Retention, KeepsTheNewestEphemeralSteps) {
  const RetentionState state = StateOf(6, {1, 3, 5});
  EXPECT_THAT(Gone({}, state), ElementsAre(1, 3));
  RetentionOptions options;
  options.keep_ephemeral = 2;
  EXPECT_THAT(Gone(options, state), ElementsAre(1));
  options.keep_ephemeral = 0;
  EXPECT_THAT(Gone(options, state), ElementsAre(1, 3, 5));
  EXPECT_EQ(PlanRetention({}, state)[2],
            (RetentionDecision{3, false, "ephemeral, not among the newest 1"}));
}

// They do not count among the latest either.
TEST(Retention, PolicySeesOnlyPermanentSteps) {
  EXPECT_THAT(Gone(Latest(2), StateOf(6, {3, 5})), ElementsAre(1, 2, 3));
}

TEST(Retention, Removals) {
  const RetentionState state = StateOf(6, {1, 3, 5});
  RetentionOptions options = Latest(1);
  EXPECT_THAT(Gone(options, state), ElementsAre(1, 2, 3, 4));
  options.removal = RetentionOptions::Removal::kEphemeralOnly;
  EXPECT_THAT(Gone(options, state), ElementsAre(1, 3));
  options.removal = RetentionOptions::Removal::kNever;
  EXPECT_THAT(Gone(options, state), IsEmpty());
}

TEST(Retention, KeepsAllPermanentSteps_WhenThePolicyHasAnError) {
  for (const KeepPolicy& keep :
       {LatestN(-1), !LatestN(-1), LatestN(0) & BestN("", 1),
        LatestN(0) & KeepPolicy(), !KeepPolicy(), LatestOf({}, 1)}) {
    const RetentionOptions options{.keep = keep};
    EXPECT_THAT(CheckRetention(options), InvalidArgument("retention.keep: "));
    EXPECT_THAT(Gone(options, StateOf(4)), IsEmpty());
  }
}

TEST(Retention, RejectsNumbersBelowTheirBounds) {
  EXPECT_OK(CheckRetention({}));
  EXPECT_THAT(CheckRetention({.keep_ephemeral = -1}),
              InvalidArgument(
                  "retention: keep_ephemeral is -1; it must be at least 0"));
}

// --- Random histories compared with a simple model of the policies.

class History {
 public:
  explicit History(uint64_t seed) : random_(seed) {}

  RetentionState Next() {
    RetentionState state;
    int64_t time = 1'000 * kMicros;
    int64_t step = 0;
    const uint64_t count = Below(12);
    for (uint64_t i = 0; i <= count; ++i) {
      step += static_cast<int64_t>(1 + Below(5));
      // The clock sometimes jumps, also backwards.
      time += (static_cast<int64_t>(Below(40)) - 4) * kMicros;
      StepInfo info{step, time, Below(4) == 0, {}};
      if (Below(4) != 0) info.metrics["auc"] = Metric();
      if (Below(6) == 0) state.held[step] = "pinned";
      state.steps.push_back(std::move(info));
    }
    state.newest = state.steps[Below(state.steps.size())].step;
    state.now_micros = time + static_cast<int64_t>(Below(100)) * kMicros;
    return state;
  }
  uint64_t Below(uint64_t bound) { return random_() % bound; }

 private:
  double Metric() {
    if (Below(8) == 0) return std::nan("");
    return static_cast<double>(Below(4));  // with ties
  }

  std::mt19937_64 random_;
};

std::vector<StepInfo> Permanent(const RetentionState& state) {
  std::vector<StepInfo> steps = state.steps;
  std::erase_if(steps, [](const StepInfo& step) { return step.ephemeral; });
  return steps;
}

// Counts the better ones, one by one.
bool IsAmongBest(const StepInfo& step, const std::vector<StepInfo>& steps,
                 int64_t count) {
  const auto own = step.metrics.find("auc");
  if (own == step.metrics.end()) return true;
  int64_t better = 0;
  for (const StepInfo& other : steps) {
    const auto found = other.metrics.find("auc");
    if (found == other.metrics.end() || other.step == step.step) continue;
    const double a = found->second;
    const double b = own->second;
    const bool tie = a == b || (std::isnan(a) && std::isnan(b));
    if (tie ? other.step > step.step
            : !std::isnan(a) && (std::isnan(b) || a > b)) {
      ++better;
    }
  }
  return better < count;
}

TEST(RetentionModel, MatchesTheModel) {
  History history(TestSeed());
  for (int round = 0; round < 3000; ++round) {
    const RetentionState state = history.Next();
    const auto latest = static_cast<int64_t>(history.Below(4));
    const auto best = static_cast<int64_t>(history.Below(3));
    const auto grid = static_cast<int64_t>(1 + history.Below(6));
    const auto age = static_cast<double>(history.Below(60));
    RetentionOptions options;
    options.keep_ephemeral = static_cast<int64_t>(history.Below(3));
    options.keep = LatestN(latest) | BestN("auc", best) |
                   (KeepEveryNSteps(grid) & KeepForNSeconds(age));
    const std::vector<StepInfo> permanent = Permanent(state);
    const auto kept_by_policy = [&](const StepInfo& step) {
      const auto after = std::count_if(
          permanent.begin(), permanent.end(),
          [&](const StepInfo& other) { return other.step > step.step; });
      const bool young = static_cast<double>(state.now_micros -
                                             step.time_micros) <= age * kMicros;
      return after < latest || IsAmongBest(step, permanent, best) ||
             (step.step % grid == 0 && young);
    };
    const std::vector<RetentionDecision> decisions =
        PlanRetention(options, state);
    ASSERT_EQ(decisions.size(), state.steps.size());
    for (size_t i = 0; i < decisions.size(); ++i) {
      const StepInfo& step = state.steps[i];
      ASSERT_EQ(decisions[i].step, step.step);
      const auto newer_ephemeral = std::count_if(
          state.steps.begin(), state.steps.end(), [&](const StepInfo& other) {
            return other.ephemeral && other.step > step.step;
          });
      const bool expected =
          step.step == state.newest || state.held.contains(step.step) ||
          (step.ephemeral ? newer_ephemeral < options.keep_ephemeral
                          : kept_by_policy(step));
      ASSERT_EQ(decisions[i].stays, expected)
          << "round " << round << ", step " << step.step << ": "
          << decisions[i].reason;
    }
  }
}

TEST(RetentionJsonTest, IsTheManagersConfiguration) {
  const KeepPolicy policies[] = {
      KeepPolicy(),
      KeepAll(),
      LatestN(3),
      LatestOf(KeepEveryNSteps(5) | LatestN(9), 2),
      KeepSteps({}),
      KeepSteps({1, 1'000'000'000'000}),
      KeepNearestToEveryNSteps(7),
      KeepEveryNSeconds(0.1) & !KeepForNSeconds(1e11),
      BestN("a \"b\"\n\u00e4", 2),
      BestN({.metric = "loss",
             .count = 0,
             .lower_is_better = true,
             .keep_without_metric = false})};
  for (const KeepPolicy& policy : policies) {
    for (const auto removal : {RetentionOptions::Removal::kNever,
                               RetentionOptions::Removal::kEphemeralOnly,
                               RetentionOptions::Removal::kAllNonPermanent}) {
      const RetentionOptions options = {policy, 4, removal};
      const std::string json = internal::RetentionJson(options);
      ManagerOptions read;
      ASSERT_OK(ReadManagerConfig(json, &read)) << json;
      EXPECT_EQ(internal::RetentionJson(read.retention), json);
      EXPECT_EQ(read.retention.removal, removal);
    }
  }
  EXPECT_EQ(
      internal::RetentionJson({LatestN(4) | BestN("auc", 2)}),
      R"({"keep": {"any": [{"latest_n": 4}, {"best_n": {"metric": "auc", )"
      R"("count": 2, "lower_is_better": false, )"
      R"("keep_without_metric": true}}]}, "keep_ephemeral": 1, )"
      R"("removal": "all_non_permanent"})");
}

}  // namespace
}  // namespace ckptdb::testing
