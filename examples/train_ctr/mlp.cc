#include "train_ctr/mlp.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
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
                {}};
    const double range = std::sqrt(6.0 / static_cast<double>(inputs));
    for (float& weight : layer.weight.values) {
      weight = static_cast<float>(range * (2 * random.NextUnit() - 1));
    }
    layers_.push_back(std::move(layer));
    inputs = outputs;
  }
}

void Mlp::ForwardLayer(const float* input, size_t examples, bool relu,
                       Layer* layer) {
  const size_t outputs = layer->outputs;
  layer->output.resize(examples * outputs);
  for (size_t e = 0; e < examples; ++e) {
    float* out = &layer->output[e * outputs];
    std::copy_n(layer->bias.values.data(), outputs, out);
    for (size_t i = 0; i < layer->inputs; ++i) {
      const float x = input[e * layer->inputs + i];
      const float* weights = &layer->weight.values[i * outputs];
      for (size_t o = 0; o < outputs; ++o) out[o] += x * weights[o];
    }
    if (!relu) continue;
    for (size_t o = 0; o < outputs; ++o) out[o] = std::max(out[o], 0.0f);
  }
}

const std::vector<float>& Mlp::Forward(const float* input, size_t examples) {
  for (Layer& layer : layers_) {
    ForwardLayer(input, examples, &layer != &layers_.back(), &layer);
    input = layer.output.data();
  }
  return layers_.back().output;
}

void Mlp::BackwardLayer(const float* input, size_t examples,
                        const std::vector<float>& output_gradient,
                        std::vector<float>* input_gradient, Layer* layer) {
  const size_t inputs = layer->inputs;
  const size_t outputs = layer->outputs;
  std::fill(layer->weight.gradient.begin(), layer->weight.gradient.end(), 0);
  std::fill(layer->bias.gradient.begin(), layer->bias.gradient.end(), 0);
  input_gradient->assign(examples * inputs, 0);
  for (size_t e = 0; e < examples; ++e) {
    const float* out = &output_gradient[e * outputs];
    for (size_t o = 0; o < outputs; ++o) layer->bias.gradient[o] += out[o];
    for (size_t i = 0; i < inputs; ++i) {
      const float x = input[e * inputs + i];
      const float* weights = &layer->weight.values[i * outputs];
      float* gradient = &layer->weight.gradient[i * outputs];
      float sum = 0;
      for (size_t o = 0; o < outputs; ++o) {
        gradient[o] += x * out[o];
        sum += weights[o] * out[o];
      }
      (*input_gradient)[e * inputs + i] = sum;
    }
  }
}

void Mlp::Backward(const float* input, const std::vector<float>& logit_gradient,
                   std::vector<float>* input_gradient) {
  const size_t examples = logit_gradient.size();
  std::vector<float> gradient = logit_gradient;
  std::vector<float> next;
  for (size_t l = layers_.size(); l-- > 0;) {
    const float* in = l == 0 ? input : layers_[l - 1].output.data();
    BackwardLayer(in, examples, gradient, &next, &layers_[l]);
    for (size_t i = 0; l > 0 && i < next.size(); ++i) {
      if (in[i] <= 0) next[i] = 0;
    }
    std::swap(gradient, next);
  }
  *input_gradient = std::move(gradient);
}

void Mlp::AdamStep(const AdamOptions& options, Parameter* parameter) const {
  const auto t = static_cast<double>(adam_step_);
  const float scale = static_cast<float>(
      options.learning_rate * std::sqrt(1 - std::pow(options.beta2, t)) /
      (1 - std::pow(options.beta1, t)));
  for (size_t i = 0; i < parameter->values.size(); ++i) {
    const float g = parameter->gradient[i];
    float& m = parameter->m[i];
    float& v = parameter->v[i];
    m = options.beta1 * m + (1 - options.beta1) * g;
    v = options.beta2 * v + (1 - options.beta2) * g * g;
    parameter->values[i] -= scale * m / (std::sqrt(v) + options.epsilon);
  }
}

void Mlp::ApplyAdam(const AdamOptions& options) {
  ++adam_step_;
  for (Layer& layer : layers_) {
    AdamStep(options, &layer.weight);
    AdamStep(options, &layer.bias);
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
