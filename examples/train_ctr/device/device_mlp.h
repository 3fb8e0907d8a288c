// SPDX-License-Identifier: Apache-2.0
// The perceptron in the memory of a GPU: the parameters of an Mlp, and the
// same mathematics by kernels.
#ifndef CKPTDB_EXAMPLES_TRAIN_CTR_DEVICE_DEVICE_MLP_H_
#define CKPTDB_EXAMPLES_TRAIN_CTR_DEVICE_DEVICE_MLP_H_

#include <ckptdb/cuda/cuda_device.h>
#include <ckptdb/manager/model_state.h>
#include <cuda_runtime_api.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "train_ctr/device/memory.h"
#include "train_ctr/mlp.h"
#include "train_ctr/state_view.h"

namespace train_ctr {

// All work is queued on the stream. Memory that is given is the device's. After
// an error the object must not be used further. Not thread-safe.
class DeviceMlp {
 public:
  // Takes the state of `mlp`, for batches of up to so many examples. `stream`
  // outlives it.
  static absl::StatusOr<std::unique_ptr<DeviceMlp>> Make(
      Mlp mlp, size_t max_examples, cudaStream_t stream,
      const Transfer& transfer);

  // Waits for the stream, which may still use the memory.
  ~DeviceMlp();

  // Makes the logits of `examples` rows of `input`.
  absl::Status Forward(const float* input, size_t examples);
  // The logits of the last Forward; its gradients by them, for Backward.
  const StagedArray<float>& logits() const { return logits_; }
  const StagedArray<float>& logit_gradient() const { return logit_gradient_; }
  // Sets the gradients of all weights, and `input_gradient`.
  absl::Status Backward(const float* input, size_t examples,
                        float* input_gradient);
  absl::Status ApplyAdam(const AdamOptions& options);

  // Registers what a checkpoint holds: the tensors of Mlp::State.
  absl::Status Register(ckptdb::CudaDevice* device, ckptdb::ModelState* state);
  // Returns a copy in host memory, which is good until the next call.
  absl::StatusOr<std::vector<TensorView>> Read(const Transfer& transfer);

 private:
  // A parameter's tensors in Mlp::State: its values and Adam's moments.
  static constexpr size_t kTensors = 3;
  struct Parameter {
    std::array<TensorView, kTensors> host;  // of mlp_
    std::array<DeviceArray<float>, kTensors> device;
    DeviceArray<float> gradient;

    float* values() const { return device[0].get(); }
  };
  struct Layer {
    uint64_t inputs = 0;
    uint64_t outputs = 0;
    Parameter weight;
    Parameter bias;
    // Hidden layers have examples x outputs numbers here, the last layer none.
    DeviceArray<float> output;
    DeviceArray<float> output_gradient;
  };

  DeviceMlp(Mlp mlp, cudaStream_t stream)
      : mlp_(std::move(mlp)), stream_(stream) {}

  absl::Status Allocate(size_t max_examples);
  static absl::StatusOr<Parameter> NewParameter(const TensorView* tensors);
  absl::Status Write(const Transfer& transfer);
  // Calls `call` with each tensor but the step count, until an error.
  absl::Status ForEachTensor(
      absl::FunctionRef<absl::Status(const TensorView& host, float* device)>
          call) const;
  absl::Status SumGradient(const WeightGradient& sum,
                           const Parameter& parameter) const;
  float* OutputOf(size_t layer) const;
  float* OutputGradientOf(size_t layer) const;
  // The inputs of a layer: `input`, or what the layer before has put out.
  const float* InputOf(size_t layer, const float* input) const;

  Mlp mlp_;  // its step count is used, its tensors are for Read
  const cudaStream_t stream_;
  std::vector<Layer> layers_;
  StagedArray<float> logits_;
  StagedArray<float> logit_gradient_;
};

}  // namespace train_ctr

#endif  // CKPTDB_EXAMPLES_TRAIN_CTR_DEVICE_DEVICE_MLP_H_
