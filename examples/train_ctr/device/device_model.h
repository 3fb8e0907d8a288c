// SPDX-License-Identifier: Apache-2.0
// A model in the memory of a GPU. The host has the index of its rows, the loss
// and the batches; everything else is on the device.
#ifndef CKPTDB_EXAMPLES_TRAIN_CTR_DEVICE_DEVICE_MODEL_H_
#define CKPTDB_EXAMPLES_TRAIN_CTR_DEVICE_DEVICE_MODEL_H_

#include <ckptdb/cuda/cuda_device.h>
#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "train_ctr/device/device_embedding.h"
#include "train_ctr/device/device_mlp.h"
#include "train_ctr/device/memory.h"
#include "train_ctr/model.h"

namespace train_ctr {

class DeviceModel final : public Model {
 public:
  // See NewDeviceModel. The device is the current one of the calling thread
  // from then on, which makes all calls. `layout` outlives it.
  static absl::StatusOr<std::unique_ptr<DeviceModel>> Make(
      const TrainerOptions& options, const FieldLayout& layout);
  ~DeviceModel() override;

  absl::StatusOr<std::vector<float>> Forward(const Batch& share,
                                             int64_t step) override;
  absl::StatusOr<std::vector<float>> Predict(const Batch& share) override;
  absl::Status Backward(const std::vector<float>& logit_gradient) override;
  absl::Status EraseUnseenSince(int64_t step) override;
  size_t rows() const override;
  absl::StatusOr<StateView> View() override;
  absl::Status Register(ckptdb::ModelState* state) override;
  absl::Status OnRestored() override;

 private:
  DeviceModel(const TrainerOptions& options, const FieldLayout& layout)
      : options_(options), layout_(layout), places_(layout.tables.size()) {}

  absl::Status Open();
  absl::Status MakeTables();
  absl::Status MakePerceptron();
  // Splits a batch into the places of each table.
  absl::Status Split(const Batch& batch);
  absl::StatusOr<std::vector<float>> RunPerceptron(size_t examples);

  const TrainerOptions options_;
  const FieldLayout& layout_;
  std::unique_ptr<ckptdb::CudaDevice> device_;
  cudaStream_t stream_ = nullptr;
  std::optional<Transfer> transfer_;
  std::vector<std::unique_ptr<DeviceEmbedding>> tables_;
  std::unique_ptr<DeviceMlp> mlp_;
  DeviceArray<float> inputs_;  // examples x fields x dim
  DeviceArray<float> input_gradient_;

  std::vector<TablePlaces> places_;        // by table
  std::vector<EmbeddingTable> read_back_;  // of the last View
};

}  // namespace train_ctr

#endif  // CKPTDB_EXAMPLES_TRAIN_CTR_DEVICE_DEVICE_MODEL_H_
