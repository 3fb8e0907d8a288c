// SPDX-License-Identifier: Apache-2.0
#include "train_ctr/mlp.h"

#include <ckptdb/schema/status.h>

#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "train_ctr/random.h"

namespace train_ctr {
namespace {

constexpr char kAdamStep[] = "mlp/adam_step";

// The tensors of a parameter in a checkpoint.
constexpr std::pair<const char*, float * Mlp::Parameter::*> kTensors[] = {
    {"", &Mlp::Parameter::values},
    {"/adam_exp_avg", &Mlp::Parameter::m},
    {"/adam_exp_avg_sq", &Mlp::Parameter::v}};

}  // namespace

absl::StatusOr<std::unique_ptr<Mlp>> Mlp::Make(
    Machine* machine, size_t inputs, const std::vector<size_t>& hidden,
    size_t max_examples, uint64_t seed) {
  std::unique_ptr<Mlp> mlp(new Mlp(machine));
  std::vector<size_t> widths = hidden;
  widths.push_back(1);
  Random random(Mix(seed, 0x6d6c70));
  for (const size_t outputs : widths) {
    std::vector<float> weights(inputs * outputs);
    const double range = std::sqrt(6.0 / static_cast<double>(inputs));
    for (float& weight : weights) {
      weight = static_cast<float>(range * (2 * random.NextUnit() - 1));
    }
    const std::string name = absl::StrCat("mlp/", mlp->layers_.size());
    const auto columns = static_cast<int64_t>(outputs);
    CKPTDB_RETURN_IF_ERROR(mlp->AddParameter(
        name + "/weight", {static_cast<int64_t>(inputs), columns}, weights));
    CKPTDB_RETURN_IF_ERROR(mlp->AddParameter(name + "/bias", {columns},
                                             std::vector<float>(outputs)));
    CKPTDB_RETURN_IF_ERROR(mlp->AddLayer(inputs, outputs, max_examples));
    inputs = outputs;
  }
  return mlp;
}

absl::Status Mlp::AddLayer(size_t inputs, size_t outputs, size_t max_examples) {
  Layer layer = {inputs, outputs};
  CKPTDB_ASSIGN_OR_RETURN(layer.output,
                          machine_->Allocate(max_examples * outputs));
  CKPTDB_ASSIGN_OR_RETURN(layer.output_gradient,
                          machine_->Allocate(max_examples * outputs));
  layers_.push_back(layer);
  return absl::OkStatus();
}

absl::Status Mlp::AddParameter(std::string name, std::vector<int64_t> shape,
                               const std::vector<float>& first) {
  Parameter added = {std::move(name), std::move(shape), first.size()};
  const std::vector<float> zeros(first.size());
  for (float** array : {&added.values, &added.m, &added.v, &added.gradient}) {
    CKPTDB_ASSIGN_OR_RETURN(*array, machine_->Allocate(first.size()));
    const auto& values = array == &added.values ? first : zeros;
    CKPTDB_RETURN_IF_ERROR(
        machine_->Write(values.data(), values.size(), *array));
  }
  state_.parameters.push_back(std::move(added));
  return absl::OkStatus();
}

absl::StatusOr<std::vector<float>> Mlp::Forward(const float* input,
                                                size_t examples) {
  for (size_t l = 0; l < layers_.size(); ++l) {
    const Layer& layer = layers_[l];
    CKPTDB_RETURN_IF_ERROR(
        machine_->Run(ForwardLayer{.input = input,
                                   .weight = weight(l).values,
                                   .bias = bias(l).values,
                                   .examples = examples,
                                   .inputs = layer.inputs,
                                   .outputs = layer.outputs,
                                   .relu = l + 1 < layers_.size(),
                                   .output = layer.output}));
    input = layer.output;
  }
  std::vector<float> logits(examples);
  CKPTDB_RETURN_IF_ERROR(machine_->Read(input, examples, logits.data()));
  return logits;
}

absl::Status Mlp::Backward(const float* input,
                           const std::vector<float>& logit_gradient,
                           float* input_gradient) {
  const size_t examples = logit_gradient.size();
  CKPTDB_RETURN_IF_ERROR(machine_->Write(logit_gradient.data(), examples,
                                         layers_.back().output_gradient));
  for (size_t l = layers_.size(); l-- > 0;) {
    const Layer& layer = layers_[l];
    const float* const inputs = l == 0 ? input : layers_[l - 1].output;
    CKPTDB_RETURN_IF_ERROR(machine_->Run(BackwardLayer{
        .weight = weight(l).values,
        .output_gradient = layer.output_gradient,
        .relu_input = l == 0 ? nullptr : inputs,
        .examples = examples,
        .inputs = layer.inputs,
        .outputs = layer.outputs,
        .input_gradient =
            l == 0 ? input_gradient : layers_[l - 1].output_gradient}));
    WeightGradient sum = {.input = inputs,
                          .output_gradient = layer.output_gradient,
                          .examples = examples,
                          .inputs = layer.inputs,
                          .outputs = layer.outputs,
                          .gradient = weight(l).gradient};
    CKPTDB_RETURN_IF_ERROR(machine_->Run(sum));
    sum.input = nullptr;
    sum.inputs = 1;
    sum.gradient = bias(l).gradient;
    CKPTDB_RETURN_IF_ERROR(machine_->Run(sum));
  }
  return absl::OkStatus();
}

absl::Status Mlp::ApplyAdam(float learning_rate) {
  const auto t = static_cast<double>(++state_.adam_step);
  const auto scale = static_cast<float>(
      learning_rate * std::sqrt(1 - std::pow(AdamStep::kBeta2, t)) /
      (1 - std::pow(AdamStep::kBeta1, t)));
  for (const Parameter& of : state_.parameters) {
    CKPTDB_RETURN_IF_ERROR(machine_->Run(
        AdamStep{scale, of.count, of.gradient, of.m, of.v, of.values}));
  }
  return absl::OkStatus();
}

absl::Status Mlp::Register(ckptdb::ModelState* state) {
  for (const Parameter& of : state_.parameters) {
    for (const auto& [suffix, array] : kTensors) {
      auto tensor = ckptdb::TensorState::Of(of.*array, of.shape);
      machine_->Place(&tensor);
      CKPTDB_RETURN_IF_ERROR(state->AddTensor(of.name + suffix, tensor));
    }
  }
  return state->AddTensor(kAdamStep,
                          ckptdb::TensorState::Of(&state_.adam_step, {}));
}

absl::StatusOr<std::map<std::string, std::string>> Mlp::Read() const {
  std::map<std::string, std::string> read;
  for (const Parameter& of : state_.parameters) {
    for (const auto& [suffix, array] : kTensors) {
      std::string& bytes = read[of.name + suffix];
      bytes.resize(of.count * sizeof(float));
      CKPTDB_RETURN_IF_ERROR(machine_->Read(
          of.*array, of.count, reinterpret_cast<float*>(bytes.data())));
    }
  }
  read[kAdamStep].assign(reinterpret_cast<const char*>(&state_.adam_step),
                         sizeof state_.adam_step);
  return read;
}

}  // namespace train_ctr
