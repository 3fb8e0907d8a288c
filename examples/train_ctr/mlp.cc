// SPDX-License-Identifier: Apache-2.0
#include "train_ctr/mlp.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "train_ctr/math/layer_math.h"
#include "train_ctr/random.h"

namespace train_ctr {
namespace {

TensorView Floats(std::string name, std::vector<int64_t> shape,
                  std::vector<float>* values) {
  return {std::move(name), ElementType::kFloat32, std::move(shape),
          values->data()};
}

}  // namespace

Mlp::Parameter Mlp::MakeParameter(size_t size) {
  const std::vector<float> zeros(size, 0.0f);
  return {zeros, zeros, zeros, zeros};
}

Mlp::Mlp(size_t inputs, const std::vector<size_t>& hidden, uint64_t seed) {
  std::vector<size_t> widths = hidden;
  widths.push_back(1);
  Random random(Mix(seed, 0x6d6c70));
  for (const size_t outputs : widths) {
    Layer layer{inputs,
                outputs,
                MakeParameter(inputs * outputs),
                MakeParameter(outputs),
                {},
                {}};
    const double range = std::sqrt(6.0 / static_cast<double>(inputs));
    for (float& weight : layer.weight.values) {
      weight = static_cast<float>(range * (2 * random.NextUnit() - 1));
    }
    layers_.push_back(std::move(layer));
    inputs = outputs;
  }
}

const std::vector<float>& Mlp::Forward(const float* input, size_t examples) {
  for (Layer& layer : layers_) {
    layer.output.resize(examples * layer.outputs);
    RunTiles(ForwardLayer{.input = input,
                          .weight = layer.weight.values.data(),
                          .bias = layer.bias.values.data(),
                          .examples = examples,
                          .inputs = layer.inputs,
                          .outputs = layer.outputs,
                          .relu = &layer != &layers_.back(),
                          .output = layer.output.data()});
    input = layer.output.data();
  }
  return layers_.back().output;
}

void Mlp::BackwardExamples(const std::vector<float>& logit_gradient,
                           std::vector<float>* input_gradient) {
  examples_ = logit_gradient.size();
  layers_.back().output_gradient = logit_gradient;
  for (size_t l = layers_.size(); l-- > 0;) {
    const Layer& layer = layers_[l];
    std::vector<float>* gradient =
        l == 0 ? input_gradient : &layers_[l - 1].output_gradient;
    gradient->resize(examples_ * layer.inputs);
    RunTiles(BackwardLayer{
        .weight = layer.weight.values.data(),
        .output_gradient = layer.output_gradient.data(),
        .relu_input = l == 0 ? nullptr : layers_[l - 1].output.data(),
        .examples = examples_,
        .inputs = layer.inputs,
        .outputs = layer.outputs,
        .input_gradient = gradient->data()});
  }
}

void Mlp::Backward(const float* input, const std::vector<float>& logit_gradient,
                   std::vector<float>* input_gradient) {
  BackwardExamples(logit_gradient, input_gradient);
  SetGradients({SumPart(Part(), {Factors(input, Part())})});
}

size_t Mlp::FactorsOfExample(Part part) const {
  size_t factors = 0;
  for (const Layer& layer : layers_) {
    factors += layer.width(part) + layer.outputs;
  }
  return factors;
}

std::vector<float> Mlp::Factors(const float* input, Part part) const {
  std::vector<float> factors;
  factors.reserve(examples_ * FactorsOfExample(part));
  for (const Layer& layer : layers_) {
    for (size_t e = 0; e < examples_; ++e) {
      const float* first = input + e * layer.inputs + layer.begin(part);
      factors.insert(factors.end(), first, first + layer.width(part));
    }
    factors.insert(factors.end(), layer.output_gradient.begin(),
                   layer.output_gradient.end());
    input = layer.output.data();
  }
  return factors;
}

void Mlp::AddFactors(Part part, size_t examples, const float** factors,
                     float* sums, Layer* layer) {
  const size_t width = layer->width(part);
  const size_t outputs = layer->outputs;
  const float* const inputs = *factors;
  const float* const output_gradients = inputs + examples * width;
  *factors = output_gradients + examples * outputs;
  WeightGradient sum = {.input = nullptr,
                        .output_gradient = output_gradients,
                        .examples = examples,
                        .inputs = 1,
                        .outputs = outputs,
                        .gradient = layer->bias.gradient.data()};
  RunTiles(sum);
  sum.input = inputs;
  sum.inputs = width;
  sum.gradient = sums;
  RunTiles(sum);
}

std::vector<float> Mlp::SumPart(
    Part part, const std::vector<std::vector<float>>& factors) {
  size_t weights = 0;
  for (Layer& layer : layers_) {
    std::fill(layer.bias.gradient.begin(), layer.bias.gradient.end(), 0);
    weights += layer.width(part) * layer.outputs;
  }
  std::vector<float> sums(weights, 0);
  for (const std::vector<float>& of_rank : factors) {
    const size_t examples = of_rank.size() / FactorsOfExample(part);
    const float* next = of_rank.data();
    float* sum = sums.data();
    for (Layer& layer : layers_) {
      AddFactors(part, examples, &next, sum, &layer);
      sum += layer.width(part) * layer.outputs;
    }
  }
  return sums;
}

void Mlp::SetGradients(const std::vector<std::vector<float>>& parts) {
  for (size_t p = 0; p < parts.size(); ++p) {
    const Part part = {p, parts.size()};
    const float* next = parts[p].data();
    for (Layer& layer : layers_) {
      const size_t weights = layer.width(part) * layer.outputs;
      std::copy_n(
          next, weights,
          layer.weight.gradient.begin() +
              static_cast<ptrdiff_t>(layer.begin(part) * layer.outputs));
      next += weights;
    }
  }
}

AdamStep NextAdamStep(const AdamOptions& options, int64_t* step) {
  const auto t = static_cast<double>(++*step);
  AdamStep adam;
  adam.scale = static_cast<float>(options.learning_rate *
                                  std::sqrt(1 - std::pow(options.beta2, t)) /
                                  (1 - std::pow(options.beta1, t)));
  adam.beta1 = options.beta1;
  adam.beta2 = options.beta2;
  adam.epsilon = options.epsilon;
  return adam;
}

void Mlp::ApplyAdam(const AdamOptions& options) {
  AdamStep adam = NextAdamStep(options, &adam_step_);
  const auto apply = [&adam](Parameter* parameter) {
    adam.count = parameter->values.size();
    adam.gradient = parameter->gradient.data();
    adam.m = parameter->m.data();
    adam.v = parameter->v.data();
    adam.value = parameter->values.data();
    RunTiles(adam);
  };
  for (Layer& layer : layers_) {
    apply(&layer.weight);
    apply(&layer.bias);
  }
}

std::vector<TensorView> Mlp::State() {
  std::vector<TensorView> state;
  const auto add = [&state](const std::string& name,
                            const std::vector<int64_t>& shape, Parameter* of) {
    state.push_back(Floats(name, shape, &of->values));
    state.push_back(Floats(name + "/adam_exp_avg", shape, &of->m));
    state.push_back(Floats(name + "/adam_exp_avg_sq", shape, &of->v));
  };
  for (size_t l = 0; l < layers_.size(); ++l) {
    Layer& layer = layers_[l];
    const auto inputs = static_cast<int64_t>(layer.inputs);
    const auto outputs = static_cast<int64_t>(layer.outputs);
    add(absl::StrCat("mlp/", l, "/weight"), {inputs, outputs}, &layer.weight);
    add(absl::StrCat("mlp/", l, "/bias"), {outputs}, &layer.bias);
  }
  state.push_back({"mlp/adam_step", ElementType::kInt64, {}, &adam_step_});
  return state;
}

std::vector<TensorView> Mlp::Gradients() {
  std::vector<TensorView> gradients;
  for (size_t l = 0; l < layers_.size(); ++l) {
    Layer& layer = layers_[l];
    const auto inputs = static_cast<int64_t>(layer.inputs);
    const auto outputs = static_cast<int64_t>(layer.outputs);
    gradients.push_back(Floats(absl::StrCat("mlp/", l, "/weight"),
                               {inputs, outputs}, &layer.weight.gradient));
    gradients.push_back(Floats(absl::StrCat("mlp/", l, "/bias"), {outputs},
                               &layer.bias.gradient));
  }
  return gradients;
}

}  // namespace train_ctr
