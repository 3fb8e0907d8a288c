// SPDX-License-Identifier: Apache-2.0
// Steps record the manager's retention, which forecasts what removes them.
#include <cstdint>
#include <map>
#include <set>
#include <vector>

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
            "the 2nd permanent save from now: not among the latest 2");
}

}  // namespace
}  // namespace ckptdb::testing
