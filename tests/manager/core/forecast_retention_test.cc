// SPDX-License-Identifier: Apache-2.0
// Steps record the manager's retention, which forecasts what removes them.
#include <algorithm>
#include <cstdint>
#include <map>
#include <regex>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "manager/policies.h"
#include "manager/results.h"
#include "tests/manager/manager_fixture.h"

namespace ckptdb::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

class ForecastRetentionTest : public ManagerTest {
 protected:
  absl::StatusOr<StepExplanation> Forecast(int64_t step) const {
    const std::vector<StepRecord> steps = manager_->store()->Steps();
    return ForecastRetention(steps, steps.back(), step);
  }
  std::set<int64_t> Numbers() const {
    std::set<int64_t> numbers;
    for (const StepRecord& record : manager_->store()->Steps()) {
      numbers.insert(record.version.step);
    }
    return numbers;
  }

  struct Claim {
    int64_t made_at;
    int64_t step;
    std::string removed;
  };

  // Trains, and compares the forecast after each save with the later removals.
  void ExpectUnrefutedForecasts(const std::string& folder) {
    options_.path = dir_.path() + "/" + folder;
    Start();
    std::vector<Claim> claims;
    std::map<int64_t, int64_t> removed_at;
    std::map<int64_t, bool> saves;  // whether ephemeral
    std::set<int64_t> before;
    while (manager_->global_step() < kEnd) {
      const double auc = 1.0 / static_cast<double>(manager_->global_step() + 2);
      ASSERT_OK(TrainStep({{"auc", auc}}));
      ASSERT_OK(manager_->WaitUntilFinished());
      const std::set<int64_t> after = Numbers();
      const int64_t now = manager_->global_step();
      for (const int64_t step : before) {
        if (!after.contains(step)) removed_at[step] = now;
      }
      before = after;
      if (!after.contains(now)) continue;
      saves[now] = Record(now).ephemeral;
      for (const int64_t step : after) {
        ASSERT_OK_AND_ASSIGN(const StepExplanation forecast, Forecast(step));
        claims.push_back({now, step, forecast.removed});
      }
    }
    for (const Claim& claim : claims) {
      const auto found = removed_at.find(claim.step);
      ExpectUnrefuted(claim, saves,
                      found == removed_at.end() ? kEnd + 1 : found->second);
    }
  }

  // `removed_at` is after kEnd if the step was not removed.
  static void ExpectUnrefuted(const Claim& claim,
                              const std::map<int64_t, bool>& saves,
                              int64_t removed_at) {
    SCOPED_TRACE(absl::StrCat("step ", claim.step, ", forecast at step ",
                              claim.made_at, ": ", claim.removed));
    std::smatch match;
    if (std::regex_search(claim.removed, match,
                          std::regex("^the save of step ([0-9]+), "))) {
      const int64_t named = std::stoll(match[1]);
      EXPECT_EQ(std::min(named, kEnd + 1), removed_at);
    } else if (std::regex_search(
                   claim.removed, match,
                   std::regex("^the ([0-9]+)[a-z]+ (permanent|ephemeral)"))) {
      int64_t left = std::stoll(match[1]);
      int64_t named = kEnd + 1;
      for (const auto& [step, ephemeral] : saves) {
        if (step <= claim.made_at || ephemeral != (match[2] == "ephemeral"))
          continue;
        if (--left == 0) named = step;
      }
      EXPECT_EQ(named, removed_at);
    } else if (absl::StartsWith(claim.removed, "the next save")) {
      const auto next = saves.upper_bound(claim.made_at);
      EXPECT_EQ(next == saves.end() ? kEnd + 1 : next->first, removed_at);
    } else if (absl::StartsWith(claim.removed, "none of the next")) {
      EXPECT_GT(removed_at, kEnd);
    } else {
      EXPECT_THAT(claim.removed, StartsWith("a later permanent save, if any"));
    }
  }

  static constexpr int64_t kEnd = 24;
};

// Later saves, whose metrics become worse, remove steps as forecast.
TEST_F(ForecastRetentionTest, AgreesWithTheSavesThatFollow) {
  options_.retention.keep =
      LatestN(3) | KeepEveryNSteps(10) | BestN("auc", 2) | KeepSteps({6});
  Start();
  const auto train_to = [&](int64_t step) {
    while (manager_->global_step() < step) {
      const double auc = 1.0 / static_cast<double>(manager_->global_step() + 2);
      ASSERT_OK(TrainStep({{"auc", auc}}));
      ASSERT_OK(manager_->WaitUntilFinished());
    }
  };
  train_to(18);
  std::map<int64_t, StepExplanation> forecasts;
  for (const int64_t step : Numbers()) {
    ASSERT_OK_AND_ASSIGN(forecasts[step], Forecast(step));
    EXPECT_THAT(forecasts[step].saved, HasSubstr("multiple of 2"));
    EXPECT_NE(forecasts[step].kept, "");
  }
  EXPECT_EQ(forecasts.count(16), 1u);
  std::map<int64_t, int64_t> removed_at;
  for (int64_t now = 20; now <= 40; now += 2) {
    const std::set<int64_t> before = Numbers();
    train_to(now);
    const std::set<int64_t> after = Numbers();
    for (const int64_t step : before) {
      if (!after.contains(step)) removed_at[step] = now;
    }
  }
  for (const auto& [step, forecast] : forecasts) {
    const auto found = removed_at.find(step);
    if (found == removed_at.end()) {
      EXPECT_THAT(forecast.removed, StartsWith("none of the next 256")) << step;
      continue;
    }
    EXPECT_THAT(forecast.removed,
                StartsWith(absl::StrCat("the save of step ", found->second,
                                        ", the ", (found->second - 18) / 2)));
    EXPECT_THAT(forecast.removed, HasSubstr(": not among the latest 3"));
  }
  EXPECT_EQ(removed_at.count(16), 1u);
  EXPECT_EQ(removed_at.count(6), 0u);
}

// Metrics worsen with each step. After each save, all earlier steps are
// forecast.
TEST_F(ForecastRetentionTest, NoForecastIsRefuted) {
  const std::vector<KeepPolicy> policies = {
      LatestN(1),
      LatestN(1) | BestN("auc", 2),
      LatestN(2) | BestN("auc", 1) | KeepSteps({6}),
      LatestN(1) | KeepEveryNSteps(8),
      LatestN(1) | LatestOf(KeepEveryNSteps(8), 2),
      LatestN(1) | KeepNearestToEveryNSteps(7),
      BestN("auc", 3) & LatestN(5)};
  int folders = 0;
  for (const int64_t ephemeral : {0, 1, 3}) {
    for (const KeepPolicy& policy : policies) {
      options_.retention.keep = policy;
      options_.retention.keep_ephemeral = 1;
      options_.schedule.ephemeral =
          ephemeral == 0 ? SavePolicy() : SaveEveryNSteps(ephemeral);
      ExpectUnrefutedForecasts(absl::StrCat(++folders));
    }
  }
}

TEST_F(ForecastRetentionTest, NamesTheNextSaveAfterGaps) {
  options_.retention.keep = LatestN(1) | BestN("auc", 2);
  Start();
  for (int i = 1; i <= 10; ++i) {
    ASSERT_OK(TrainStep({{"auc", 1.0 / i}}));
    ASSERT_OK(manager_->WaitUntilFinished());
  }
  EXPECT_EQ(Numbers(), (std::set<int64_t>{2, 4, 10}));
  ASSERT_OK_AND_ASSIGN(const StepExplanation latest, Forecast(10));
  EXPECT_THAT(latest.removed,
              StartsWith("the save of step 12, the 1st from now, if they "
                         "continue as before: "));
}

TEST_F(ForecastRetentionTest, CountsEphemeralSavesForEphemeralSteps) {
  options_.retention.keep_ephemeral = 2;
  options_.schedule.permanent = SaveEveryNSteps(100);
  options_.schedule.ephemeral = SaveEveryNSteps(1);
  Start();
  TrainAndWait(3);
  ASSERT_OK_AND_ASSIGN(const StepExplanation older, Forecast(2));
  EXPECT_EQ(older.removed,
            "the 1st ephemeral save from now, if they continue as before: "
            "ephemeral, not among the newest 2");
  ASSERT_OK_AND_ASSIGN(const StepExplanation newest, Forecast(3));
  EXPECT_THAT(newest.removed, StartsWith("the 2nd ephemeral save from now"));
}

// If the distance of saves is unknown, only policies that count saves can be
// forecast.
TEST_F(ForecastRetentionTest, NamesNoSaveThatDependsOnAnUnknownPace) {
  options_.retention.keep = LatestN(1) | KeepNearestToEveryNSteps(7);
  Start();
  TrainAndWait(2);
  ASSERT_OK_AND_ASSIGN(const StepExplanation forecast, Forecast(2));
  EXPECT_EQ(forecast.removed,
            "a later permanent save, if any: which one depends on the steps "
            "and times of the next saves");
}

TEST_F(ForecastRetentionTest, NamesWhatItCannotForecast) {
  options_.retention.keep =
      KeepIf("mine", [](const StepInfo&) { return true; });
  Start();
  TrainAndWait(2);
  EXPECT_EQ(
      manager_->store()->Steps().back().user_metadata.at("ckptdb.retention"),
      R"({"keep": {"keep_if": "mine"}, "keep_ephemeral": 1, )"
      R"("removal": "all_non_permanent"})");
  const absl::Status unknown = Forecast(2).status();
  EXPECT_EQ(unknown.code(), absl::StatusCode::kUnimplemented);
  EXPECT_THAT(std::string(unknown.message()), HasSubstr("keep_if"));
  options_.retention.keep = LatestN(2);
  Reopen();
  ASSERT_OK(manager_->Restore().status());
  TrainAndWait(4);
  EXPECT_EQ(Forecast(3).status().code(), absl::StatusCode::kNotFound);
  options_.retention.keep = KeepSteps(std::vector<int64_t>(2000, 1234));
  Reopen();
  ASSERT_OK(manager_->Restore().status());
  TrainAndWait(6);
  EXPECT_EQ(Forecast(4).status().code(), absl::StatusCode::kUnimplemented);
  // Saved without a manager.
  const std::vector<StepRecord> none(1);
  EXPECT_EQ(ForecastRetention(none, none[0], 0).status().code(),
            absl::StatusCode::kNotFound);
}

TEST_F(ForecastRetentionTest, OneSaveHasNoInterval) {
  options_.retention.keep = LatestN(2);
  Start();
  TrainAndWait(2);
  ASSERT_OK_AND_ASSIGN(const StepExplanation forecast, Forecast(2));
  EXPECT_EQ(forecast.removed,
            "the 2nd permanent save from now, if they continue as before: not "
            "among the latest 2");
}

}  // namespace
}  // namespace ckptdb::testing
