// SPDX-License-Identifier: Apache-2.0
#include "train_ctr/metrics.h"

#include <cmath>
#include <random>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "tests/support/seed.h"

namespace train_ctr {
namespace {

TEST(MetricsTest, LogLoss) {
  EXPECT_DOUBLE_EQ(LogLoss(0, 1), std::log(2.0));
  EXPECT_DOUBLE_EQ(LogLoss(0, 0), std::log(2.0));
  EXPECT_NEAR(LogLoss(2, 1), -std::log(1 / (1 + std::exp(-2.0))), 1e-12);
  EXPECT_NEAR(LogLoss(2, 0), -std::log(1 - 1 / (1 + std::exp(-2.0))), 1e-12);
  EXPECT_DOUBLE_EQ(LogLoss(1000, 0), 1000);
  EXPECT_DOUBLE_EQ(LogLoss(-1000, 1), 1000);
  EXPECT_DOUBLE_EQ(LogLoss(1000, 1), 0);
}

TEST(MetricsTest, Sigmoid) {
  EXPECT_FLOAT_EQ(Sigmoid(0), 0.5f);
  EXPECT_FLOAT_EQ(Sigmoid(1000), 1);
  EXPECT_FLOAT_EQ(Sigmoid(-1000), 0);
}

TEST(MetricsTest, AucOfOrderedPredictions) {
  ClickMetrics metrics;
  metrics.Add(-2, 0);
  metrics.Add(-1, 0);
  metrics.Add(1, 1);
  EXPECT_DOUBLE_EQ(metrics.auc(), 1);
  metrics.Add(-3, 1);
  EXPECT_DOUBLE_EQ(metrics.auc(), 0.5);
  EXPECT_EQ(metrics.examples(), 4u);
}

TEST(MetricsTest, EqualLogitsCountHalf) {
  ClickMetrics metrics;
  metrics.Add(1, 1);
  metrics.Add(1, 0);
  metrics.Add(1, 0);
  EXPECT_DOUBLE_EQ(metrics.auc(), 0.5);
  metrics.Add(0, 0);
  EXPECT_DOUBLE_EQ(metrics.auc(), 2.0 / 3);
}

TEST(MetricsTest, WithoutPairs) {
  ClickMetrics metrics;
  EXPECT_DOUBLE_EQ(metrics.auc(), 0.5);
  EXPECT_DOUBLE_EQ(metrics.log_loss(), 0);
  metrics.Add(1, 1);
  EXPECT_DOUBLE_EQ(metrics.auc(), 0.5);
}

TEST(MetricsTest, AgreesWithCountingPairs) {
  std::mt19937_64 random(ckptdb::testing::TestSeed());
  ClickMetrics metrics;
  std::vector<std::pair<float, bool>> all;
  double loss = 0;
  for (int i = 0; i < 300; ++i) {
    const float logit = static_cast<float>(random() % 40) / 10;
    const bool click = random() % 3 == 0;
    metrics.Add(logit, click ? 1 : 0);
    all.emplace_back(logit, click);
    loss += LogLoss(logit, click ? 1 : 0);
  }
  double pairs = 0;
  double won = 0;
  for (const auto& [logit, click] : all) {
    for (const auto& [other_logit, other_click] : all) {
      if (!click || other_click) continue;
      ++pairs;
      won += logit > other_logit ? 1 : logit == other_logit ? 0.5 : 0;
    }
  }
  EXPECT_NEAR(metrics.auc(), won / pairs, 1e-12);
  EXPECT_NEAR(metrics.log_loss(), loss / 300, 1e-12);
}

TEST(MetricsTest, NanHasNoAuc) {
  ClickMetrics metrics;
  metrics.Add(0.5f, 1);
  metrics.Add(std::nanf(""), 0);
  metrics.Add(0.25f, 0);
  EXPECT_TRUE(std::isnan(metrics.auc()));
  EXPECT_TRUE(std::isnan(metrics.log_loss()));
}

}  // namespace
}  // namespace train_ctr
