// SPDX-License-Identifier: Apache-2.0
#include "train_ctr/mlp.h"

#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace train_ctr {
namespace {

constexpr size_t kInputs = 5;
constexpr size_t kExamples = 7;

std::vector<float> RandomInput(uint64_t seed) {
  std::mt19937_64 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> input(kInputs * kExamples);
  for (float& x : input) x = normal(random);
  return input;
}

// The loss whose gradient by every logit is its square's derivative.
double Loss(Mlp& mlp, const std::vector<float>& input) {
  double loss = 0;
  for (const float logit : mlp.Forward(input.data(), kExamples)) {
    loss += 0.5 * logit * logit;
  }
  return loss;
}

void ComputeGradients(Mlp& mlp, const std::vector<float>& input,
                      std::vector<float>* input_gradient) {
  const std::vector<float> logits = mlp.Forward(input.data(), kExamples);
  mlp.Backward(input.data(), logits, input_gradient);
}

// The derivative of the loss by *x, from both sides of it.
double FiniteDifference(Mlp& mlp, const std::vector<float>& input, float* x) {
  constexpr float kDelta = 1e-3f;
  const float middle = *x;
  *x = middle + kDelta;
  const double above = Loss(mlp, input);
  const double step_above = *x - middle;
  *x = middle - kDelta;
  const double below = Loss(mlp, input);
  const double step_below = middle - *x;
  *x = middle;
  return (above - below) / (step_above + step_below);
}

TensorView StateNamed(Mlp& mlp, const std::string& name) {
  for (const TensorView& tensor : mlp.State()) {
    if (tensor.name == name) return tensor;
  }
  ADD_FAILURE() << "no tensor " << name;
  return {};
}

TEST(MlpTest, WeightGradientsAreFiniteDifferences) {
  Mlp mlp(kInputs, {6, 4}, 3);
  std::vector<float> input = RandomInput(3);
  std::vector<float> input_gradient;
  ComputeGradients(mlp, input, &input_gradient);
  int nonzero = 0;
  for (const TensorView& gradient : mlp.Gradients()) {
    const auto* found = static_cast<const float*>(gradient.values);
    auto* weights = static_cast<float*>(StateNamed(mlp, gradient.name).values);
    for (size_t i = 0; i < gradient.bytes() / sizeof(float); ++i) {
      const double expected = FiniteDifference(mlp, input, &weights[i]);
      EXPECT_NEAR(found[i], expected, 1e-2 + 1e-2 * std::abs(expected))
          << gradient.name << " " << i;
      nonzero += found[i] != 0;
    }
  }
  EXPECT_GT(nonzero, 20);
}

TEST(MlpTest, InputGradientsAreFiniteDifferences) {
  Mlp mlp(kInputs, {6, 4}, 3);
  std::vector<float> input = RandomInput(3);
  std::vector<float> found;
  ComputeGradients(mlp, input, &found);
  ASSERT_EQ(found.size(), input.size());
  for (size_t i = 0; i < input.size(); ++i) {
    const double expected = FiniteDifference(mlp, input, &input[i]);
    EXPECT_NEAR(found[i], expected, 1e-2 + 1e-2 * std::abs(expected)) << i;
  }
}

TEST(MlpTest, WithoutHiddenLayersIsLinear) {
  Mlp mlp(2, {}, 1);
  auto* weights = static_cast<float*>(StateNamed(mlp, "mlp/0/weight").values);
  auto* bias = static_cast<float*>(StateNamed(mlp, "mlp/0/bias").values);
  weights[0] = 2;
  weights[1] = -3;
  bias[0] = 0.5f;
  const std::vector<float> input = {1, 1, 4, 2};
  EXPECT_THAT(mlp.Forward(input.data(), 2),
              ::testing::ElementsAre(-0.5f, 2.5f));
}

TEST(MlpTest, StateHasEveryTensor) {
  Mlp mlp(kInputs, {6}, 1);
  std::vector<std::string> names;
  size_t bytes = 0;
  for (const TensorView& tensor : mlp.State()) {
    names.push_back(tensor.name);
    bytes += tensor.bytes();
  }
  EXPECT_THAT(names,
              ::testing::ElementsAre(
                  "mlp/0/weight", "mlp/0/weight/adam_exp_avg",
                  "mlp/0/weight/adam_exp_avg_sq", "mlp/0/bias",
                  "mlp/0/bias/adam_exp_avg", "mlp/0/bias/adam_exp_avg_sq",
                  "mlp/1/weight", "mlp/1/weight/adam_exp_avg",
                  "mlp/1/weight/adam_exp_avg_sq", "mlp/1/bias",
                  "mlp/1/bias/adam_exp_avg", "mlp/1/bias/adam_exp_avg_sq",
                  "mlp/adam_step"));
  EXPECT_EQ(bytes, 3 * 4 * (5 * 6 + 6 + 6 + 1) + 8u);
}

// The first step of Adam moves each weight by about the learning rate.
TEST(MlpTest, FirstAdamStepHasTheLearningRate) {
  Mlp mlp(kInputs, {6}, 1);
  const std::vector<float> input = RandomInput(1);
  std::vector<float> input_gradient;
  ComputeGradients(mlp, input, &input_gradient);
  auto* bias = static_cast<float*>(StateNamed(mlp, "mlp/1/bias").values);
  const auto* gradient = static_cast<float*>(mlp.Gradients().back().values);
  ASSERT_GT(std::abs(*gradient), 0.01f);
  const float before = *bias;
  mlp.ApplyAdam({.learning_rate = 0.1f});
  EXPECT_NEAR(*bias, before - std::copysign(0.1f, *gradient), 1e-4);
  EXPECT_EQ(*static_cast<int64_t*>(StateNamed(mlp, "mlp/adam_step").values), 1);
}

TEST(MlpTest, AdamLowersTheLoss) {
  Mlp mlp(kInputs, {6, 4}, 3);
  const std::vector<float> input = RandomInput(2);
  std::vector<float> input_gradient;
  const double before = Loss(mlp, input);
  for (int step = 0; step < 300; ++step) {
    ComputeGradients(mlp, input, &input_gradient);
    mlp.ApplyAdam({.learning_rate = 0.01f});
  }
  EXPECT_LT(Loss(mlp, input), before / 10);
}

TEST(MlpTest, SeedDecidesTheWeights) {
  const std::vector<float> input = RandomInput(1);
  Mlp one(kInputs, {6}, 1);
  Mlp same(kInputs, {6}, 1);
  Mlp other(kInputs, {6}, 2);
  EXPECT_EQ(Loss(one, input), Loss(same, input));
  EXPECT_NE(Loss(one, input), Loss(other, input));
}

}  // namespace
}  // namespace train_ctr
