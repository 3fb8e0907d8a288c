// SPDX-License-Identifier: Apache-2.0
// Reads rows of a hash table in device memory in batches; internal to cuda/.
#ifndef CKPTDB_CUDA_TABLES_HASH_ROWS_H_
#define CKPTDB_CUDA_TABLES_HASH_ROWS_H_

#include <cuda_runtime_api.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "cuda/hash_table.h"
#include "cuda/runtime/device_context.h"
#include "cuda/runtime/stream.h"
#include "cuda/tables/row_capture.h"
#include "cuda/tables/table_rows.h"
#include "manager/internal/tensor_device.h"
#include "manager/model_state.h"

namespace ckptdb::internal {

// A HashTable's source and layout, shared by its parts.
struct HashLayout {
  DeviceContext* context = nullptr;
  HashTable::Source* source = nullptr;
  cudaStream_t stream = nullptr;
  std::vector<Slot> slots;  // the scores' slot last, if there is one
  bool has_scores = false;
  uint64_t value_bytes = 0;  // per row, without its score
  uint64_t batch_rows = 0;

  size_t value_slots() const { return slots.size() - (has_scores ? 1 : 0); }
};

// Device memory for one batch. Its work is queued on the context's side stream.
// Used by one thread at a time.
class HashWindow {
 public:
  // Makes the side stream wait for the work that the trainer has queued.
  static absl::StatusOr<std::unique_ptr<HashWindow>> Make(
      const HashLayout* layout);
  // Waits for the queued work.
  ~HashWindow();

  uint64_t rows() const { return layout_.batch_rows; }
  HashTable::Source::Batch batch() const;
  uint8_t* found() const;

  // Exports places, with or without values, and returns the keys.
  absl::StatusOr<std::vector<int64_t>> Export(
      const HashTable::Source::ExportSpec& spec, bool with_values);
  // Returns the scores of the last exported rows.
  absl::StatusOr<std::vector<uint64_t>> ReadScores(uint64_t rows);
  // Looks up keys. Returns Internal naming the first that is missing.
  absl::Status Find(absl::Span<const int64_t> keys);
  // Returns the first `rows` rows of the window, as a table.
  TableRows AsTable(uint64_t rows) const;

 private:
  HashWindow(const HashLayout* layout, DevicePool::Loan device,
             PinnedPool::Loan host);

  absl::Status Read(const void* from, uint64_t bytes);

  const HashLayout& layout_;
  const DevicePool::Loan device_;
  const PinnedPool::Loan host_;
};

// Rows of a hash table in host memory.
class HashRows : public TableState::Captured {
 public:
  // Copies all rows of the table, or the rows of `ids` if it is not null. `ids`
  // must outlive the result.
  static absl::StatusOr<std::unique_ptr<HashRows>> Copy(
      const HashLayout* layout, const absl::Span<const int64_t>* ids,
      RowForm form);

  absl::Status Fetch() override { return absl::OkStatus(); }
  uint64_t block_count() const override { return parts_.size(); }
  absl::StatusOr<RowBlock> Block(uint64_t block) const override {
    return parts_[block]->rows->Block(0);
  }

 private:
  // The rows of a batch.
  struct Part {
    TableRows table;
    std::unique_ptr<RowCapture> rows;
  };

  absl::Status CopyBatches(const HashLayout& layout, HashWindow* window,
                           const absl::Span<const int64_t>* ids);
  absl::Status Add(const HashLayout& layout, const HashWindow& window,
                   RowIds ids);

  std::vector<Slot> slots_;  // with the codecs that encode them
  bool refused_ = false;  // a slot could not be encoded; its codec is removed
  std::vector<std::unique_ptr<Part>> parts_;
};

}  // namespace ckptdb::internal

#endif  // CKPTDB_CUDA_TABLES_HASH_ROWS_H_
