// SPDX-License-Identifier: Apache-2.0
// An embedding table in the memory of a GPU: a ckptdb::DeviceTable, and the
// index from ids to its rows.
#ifndef CKPTDB_EXAMPLES_TRAIN_CTR_DEVICE_DEVICE_EMBEDDING_H_
#define CKPTDB_EXAMPLES_TRAIN_CTR_DEVICE_DEVICE_EMBEDDING_H_

#include <ckptdb/cuda/cuda_device.h>
#include <ckptdb/cuda/device_table.h>
#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "train_ctr/device/memory.h"
#include "train_ctr/device/operations.h"
#include "train_ctr/device/row_index.h"
#include "train_ctr/embedding_table.h"

namespace train_ctr {

// The places of a batch that name ids of one table, in ascending order.
struct TablePlaces {
  std::vector<int64_t> ids;
  std::vector<uint32_t> places;

  void Clear() {
    ids.clear();
    places.clear();
  }
};

// All work is queued on the stream. The host waits for it before it calls Touch
// or LookUp again. After an error the table must not be used further. Not
// thread-safe.
class DeviceEmbedding {
 public:
  struct Options {
    EmbeddingTableOptions table;
    uint64_t rows = 0;        // there is memory for
    uint64_t max_places = 0;  // of a batch
    ckptdb::CudaDevice* device = nullptr;
    cudaStream_t stream = nullptr;
  };

  // `device` and `stream` outlive it.
  static absl::StatusOr<std::unique_ptr<DeviceEmbedding>> Make(
      const Options& options);

  const std::string& name() const { return options_.table.name; }
  size_t rows() const { return index_.size(); }
  // Returns what a checkpoint holds of it: EmbeddingSlots.
  ckptdb::DeviceTable* state() const { return state_.get(); }

  // Put the embeddings of the ids to inputs[place * dim], in device memory.
  // Touch counts the sight of them at `step`, and makes the rows that do not
  // exist; it returns ResourceExhausted if there is no room for one, and
  // InvalidArgument for kFreeId. LookUp gives zeros for those.
  absl::Status Touch(const TablePlaces& batch, int64_t step, float* inputs);
  absl::Status LookUp(const TablePlaces& batch, float* inputs);
  // Makes a step of Adagrad of the rows of the last Touch, and marks them.
  // `input_gradient` is in device memory, by place as the inputs.
  absl::Status ApplyGradients(const float* input_gradient, float learning_rate);

  // Erases the rows last seen before `step`. Waits for the stream.
  absl::Status EraseUnseenSince(int64_t step);

  // Rebuilds the index after a restore.
  absl::Status Reindex(const Transfer& transfer);
  // Returns a copy in host memory.
  absl::StatusOr<EmbeddingTable> Read(const Transfer& transfer) const;

 private:
  explicit DeviceEmbedding(const Options& options);

  absl::Status Allocate();
  absl::Status OpenState();
  absl::Status FindRows(const TablePlaces& batch);
  void ListPlaces(const TablePlaces& batch);
  absl::Status Gather(size_t places, float* inputs);

  const Options options_;
  const uint64_t seed_;
  RowIndex index_;

  TableArrays arrays_;  // points into those below
  DeviceArray<int64_t> ids_;
  DeviceArray<float> embedding_;
  DeviceArray<float> adagrad_sum_;
  DeviceArray<int64_t> freq_;
  DeviceArray<int64_t> last_step_;
  StagedArray<uint8_t> erased_;  // by row

  // These are of the last Touch or LookUp.
  StagedArray<BatchRow> batch_rows_;
  StagedArray<BatchPlace> batch_places_;
  DeviceArray<int32_t> listed_rows_;
  size_t row_count_ = 0;
  std::vector<uint32_t> batch_row_of_place_;
  // The batch row of each table row; kNoBatchRow for those not in the batch.
  std::vector<uint32_t> batch_row_of_row_;

  std::unique_ptr<ckptdb::DeviceTable> state_;
};

}  // namespace train_ctr

#endif  // CKPTDB_EXAMPLES_TRAIN_CTR_DEVICE_DEVICE_EMBEDDING_H_
