// SPDX-License-Identifier: Apache-2.0
#include "train_ctr/mlp.h"

#include <algorithm>
#include <cmath>
#include <memory>
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

// A perceptron in host memory.
struct Perceptron {
  Perceptron(const std::vector<size_t>& hidden, uint64_t seed,
             size_t inputs = kInputs)
      : mlp(Mlp::Make(&machine, inputs, hidden, kExamples, seed).value()) {}

  std::vector<float> Forward(const std::vector<float>& input) {
    return mlp->Forward(input.data(), kExamples).value();
  }
  const Mlp::Parameter& Named(const std::string& name) {
    const auto& all = mlp->state().parameters;
    return *std::find_if(all.begin(), all.end(),
                         [&](const auto& one) { return one.name == name; });
  }

  HostMachine machine;
  std::unique_ptr<Mlp> mlp;
};

// The loss whose gradient by every logit is its square's derivative.
double Loss(Perceptron& mlp, const std::vector<float>& input) {
  double loss = 0;
  for (const float logit : mlp.Forward(input)) loss += 0.5 * logit * logit;
  return loss;
}

void ComputeGradients(Perceptron& mlp, const std::vector<float>& input,
                      std::vector<float>* input_gradient) {
  const std::vector<float> logits = mlp.Forward(input);
  input_gradient->resize(input.size());
  ASSERT_TRUE(
      mlp.mlp->Backward(input.data(), logits, input_gradient->data()).ok());
}

// The derivative of the loss by *x, from both sides of it.
double FiniteDifference(Perceptron& mlp, const std::vector<float>& input,
                        float* x) {
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

TEST(MlpTest, WeightGradientsAreFiniteDifferences) {
  Perceptron mlp({6, 4}, 3);
  std::vector<float> input = RandomInput(3);
  std::vector<float> input_gradient;
  ComputeGradients(mlp, input, &input_gradient);
  int nonzero = 0;
  for (const Mlp::Parameter& parameter : mlp.mlp->state().parameters) {
    for (size_t i = 0; i < parameter.count; ++i) {
      const double expected =
          FiniteDifference(mlp, input, &parameter.values[i]);
      EXPECT_NEAR(parameter.gradient[i], expected,
                  1e-2 + 1e-2 * std::abs(expected))
          << parameter.name << " " << i;
      nonzero += parameter.gradient[i] != 0;
    }
  }
  EXPECT_GT(nonzero, 20);
}

TEST(MlpTest, InputGradientsAreFiniteDifferences) {
  Perceptron mlp({6, 4}, 3);
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
  Perceptron mlp({}, 1, 2);
  float* const weights = mlp.Named("mlp/0/weight").values;
  weights[0] = 2;
  weights[1] = -3;
  mlp.Named("mlp/0/bias").values[0] = 0.5f;
  const std::vector<float> input = {1, 1, 4, 2};
  EXPECT_THAT(mlp.mlp->Forward(input.data(), 2).value(),
              ::testing::ElementsAre(-0.5f, 2.5f));
}

TEST(MlpTest, ReadReturnsEveryTensor) {
  Perceptron mlp({6}, 1);
  std::vector<std::string> names;
  size_t bytes = 0;
  const auto read = mlp.mlp->Read().value();
  for (const auto& [name, tensor] : read) {
    names.push_back(name);
    bytes += tensor.size();
  }
  EXPECT_THAT(names,
              ::testing::UnorderedElementsAre(
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
  Perceptron mlp({6}, 1);
  const std::vector<float> input = RandomInput(1);
  std::vector<float> input_gradient;
  ComputeGradients(mlp, input, &input_gradient);
  const Mlp::Parameter& bias = mlp.Named("mlp/1/bias");
  ASSERT_GT(std::abs(*bias.gradient), 0.01f);
  const float before = *bias.values;
  ASSERT_TRUE(mlp.mlp->ApplyAdam(0.1f).ok());
  EXPECT_NEAR(*bias.values, before - std::copysign(0.1f, *bias.gradient), 1e-4);
  EXPECT_EQ(mlp.mlp->state().adam_step, 1);
}

TEST(MlpTest, AdamLowersTheLoss) {
  Perceptron mlp({6, 4}, 3);
  const std::vector<float> input = RandomInput(2);
  std::vector<float> input_gradient;
  const double before = Loss(mlp, input);
  for (int step = 0; step < 300; ++step) {
    ComputeGradients(mlp, input, &input_gradient);
    ASSERT_TRUE(mlp.mlp->ApplyAdam(0.01f).ok());
  }
  EXPECT_LT(Loss(mlp, input), before / 10);
}

TEST(MlpTest, SeedDecidesTheWeights) {
  const std::vector<float> input = RandomInput(1);
  Perceptron one({6}, 1);
  Perceptron same({6}, 1);
  Perceptron other({6}, 2);
  EXPECT_EQ(Loss(one, input), Loss(same, input));
  EXPECT_NE(Loss(one, input), Loss(other, input));
}

}  // namespace
}  // namespace train_ctr
