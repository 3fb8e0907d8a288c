// SPDX-License-Identifier: Apache-2.0
#include "train_ctr/device/device_mlp.h"

#include <ckptdb/schema/status.h>

#include "train_ctr/device/kernels.h"

namespace train_ctr {

absl::StatusOr<std::unique_ptr<DeviceMlp>> DeviceMlp::Make(
    Mlp mlp, size_t max_examples, cudaStream_t stream,
    const Transfer& transfer) {
  std::unique_ptr<DeviceMlp> made(new DeviceMlp(std::move(mlp), stream));
  CKPTDB_RETURN_IF_ERROR(made->Allocate(max_examples));
  CKPTDB_RETURN_IF_ERROR(made->Write(transfer));
  return made;
}

DeviceMlp::~DeviceMlp() {
  CudaStatus(cudaStreamSynchronize(stream_), "cudaStreamSynchronize")
      .IgnoreError();
}

absl::Status DeviceMlp::Allocate(size_t max_examples) {
  const std::vector<TensorView> tensors = mlp_.State();
  const size_t layers = tensors.size() / (2 * kTensors);
  for (size_t l = 0; l < layers; ++l) {
    const TensorView* const of_layer = &tensors[l * 2 * kTensors];
    Layer layer;
    layer.inputs = static_cast<uint64_t>(of_layer->shape[0]);
    layer.outputs = static_cast<uint64_t>(of_layer->shape[1]);
    CKPTDB_ASSIGN_OR_RETURN(layer.weight, NewParameter(of_layer));
    CKPTDB_ASSIGN_OR_RETURN(layer.bias, NewParameter(of_layer + kTensors));
    if (l + 1 < layers) {
      const size_t outputs = max_examples * layer.outputs;
      CKPTDB_ASSIGN_OR_RETURN(layer.output, DeviceArray<float>::Make(outputs));
      CKPTDB_ASSIGN_OR_RETURN(layer.output_gradient,
                              DeviceArray<float>::Make(outputs));
    }
    layers_.push_back(std::move(layer));
  }
  CKPTDB_ASSIGN_OR_RETURN(logits_, StagedArray<float>::Make(max_examples));
  CKPTDB_ASSIGN_OR_RETURN(logit_gradient_,
                          StagedArray<float>::Make(max_examples));
  return absl::OkStatus();
}

absl::StatusOr<DeviceMlp::Parameter> DeviceMlp::NewParameter(
    const TensorView* tensors) {
  Parameter parameter;
  const size_t count = tensors->bytes() / sizeof(float);
  for (size_t t = 0; t < kTensors; ++t) {
    parameter.host[t] = tensors[t];
    CKPTDB_ASSIGN_OR_RETURN(parameter.device[t],
                            DeviceArray<float>::Make(count));
  }
  CKPTDB_ASSIGN_OR_RETURN(parameter.gradient, DeviceArray<float>::Make(count));
  return parameter;
}

absl::Status DeviceMlp::Write(const Transfer& transfer) {
  return ForEachTensor([&](const TensorView& host, float* device) {
    return transfer.Write(host.values, host.bytes(), device);
  });
}

absl::StatusOr<std::vector<TensorView>> DeviceMlp::Read(
    const Transfer& transfer) {
  CKPTDB_RETURN_IF_ERROR(
      ForEachTensor([&](const TensorView& host, const float* device) {
        return transfer.Read(device, host.bytes(), host.values);
      }));
  return mlp_.State();
}

absl::Status DeviceMlp::ForEachTensor(
    absl::FunctionRef<absl::Status(const TensorView& host, float* device)> call)
    const {
  for (const Layer& layer : layers_) {
    for (const Parameter* parameter : {&layer.weight, &layer.bias}) {
      for (size_t t = 0; t < kTensors; ++t) {
        CKPTDB_RETURN_IF_ERROR(
            call(parameter->host[t], parameter->device[t].get()));
      }
    }
  }
  return absl::OkStatus();
}

float* DeviceMlp::OutputOf(size_t layer) const {
  return layer + 1 == layers_.size() ? logits_.device()
                                     : layers_[layer].output.get();
}

float* DeviceMlp::OutputGradientOf(size_t layer) const {
  return layer + 1 == layers_.size() ? logit_gradient_.device()
                                     : layers_[layer].output_gradient.get();
}

const float* DeviceMlp::InputOf(size_t layer, const float* input) const {
  return layer == 0 ? input : OutputOf(layer - 1);
}

absl::Status DeviceMlp::Forward(const float* input, size_t examples) {
  for (size_t l = 0; l < layers_.size(); ++l) {
    const Layer& layer = layers_[l];
    const ForwardLayer forward = {.input = InputOf(l, input),
                                  .weight = layer.weight.values(),
                                  .bias = layer.bias.values(),
                                  .examples = examples,
                                  .inputs = layer.inputs,
                                  .outputs = layer.outputs,
                                  .relu = l + 1 < layers_.size(),
                                  .output = OutputOf(l)};
    CKPTDB_RETURN_IF_ERROR(
        CudaStatus(Launch(forward, stream_), "ForwardLayer"));
  }
  return absl::OkStatus();
}

absl::Status DeviceMlp::Backward(const float* input, size_t examples,
                                 float* input_gradient) {
  for (size_t l = layers_.size(); l-- > 0;) {
    const Layer& layer = layers_[l];
    const BackwardLayer backward = {
        .weight = layer.weight.values(),
        .output_gradient = OutputGradientOf(l),
        .relu_input = l == 0 ? nullptr : OutputOf(l - 1),
        .examples = examples,
        .inputs = layer.inputs,
        .outputs = layer.outputs,
        .input_gradient = l == 0 ? input_gradient : OutputGradientOf(l - 1)};
    CKPTDB_RETURN_IF_ERROR(
        CudaStatus(Launch(backward, stream_), "BackwardLayer"));
    WeightGradient sum;
    sum.output_gradient = OutputGradientOf(l);
    sum.examples = examples;
    sum.outputs = layer.outputs;
    sum.inputs = 1;
    CKPTDB_RETURN_IF_ERROR(SumGradient(sum, layer.bias));
    sum.input = InputOf(l, input);
    sum.inputs = layer.inputs;
    CKPTDB_RETURN_IF_ERROR(SumGradient(sum, layer.weight));
  }
  return absl::OkStatus();
}

absl::Status DeviceMlp::SumGradient(const WeightGradient& sum,
                                    const Parameter& parameter) const {
  CKPTDB_RETURN_IF_ERROR(
      CudaStatus(cudaMemsetAsync(parameter.gradient.get(), 0,
                                 parameter.gradient.bytes(), stream_),
                 "cudaMemsetAsync"));
  WeightGradient of_parameter = sum;
  of_parameter.gradient = parameter.gradient.get();
  return CudaStatus(Launch(of_parameter, stream_), "WeightGradient");
}

absl::Status DeviceMlp::ApplyAdam(const AdamOptions& options) {
  AdamStep adam =
      NextAdamStep(options, static_cast<int64_t*>(mlp_.State().back().values));
  for (const Layer& layer : layers_) {
    for (const Parameter* parameter : {&layer.weight, &layer.bias}) {
      adam.count = parameter->gradient.size();
      adam.gradient = parameter->gradient.get();
      adam.value = parameter->device[0].get();
      adam.m = parameter->device[1].get();
      adam.v = parameter->device[2].get();
      CKPTDB_RETURN_IF_ERROR(CudaStatus(Launch(adam, stream_), "AdamStep"));
    }
  }
  return absl::OkStatus();
}

absl::Status DeviceMlp::Register(ckptdb::CudaDevice* device,
                                 ckptdb::ModelState* state) {
  CKPTDB_RETURN_IF_ERROR(
      ForEachTensor([&](const TensorView& host, float* memory) {
        ckptdb::TensorState tensor = host.state();
        tensor.data = memory;
        tensor.device = device;
        tensor.stream = stream_;
        return state->AddTensor(host.name, std::move(tensor));
      }));
  const TensorView step = mlp_.State().back();
  return state->AddTensor(step.name, step.state());
}

}  // namespace train_ctr
