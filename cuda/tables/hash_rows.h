// Rows of a hash table in device memory, batch by batch; internal to cuda/.
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
#include "ckptdb/cuda/hash_table.h"
#include "ckptdb/cuda/runtime/device_context.h"
#include "ckptdb/cuda/runtime/stream.h"
#include "ckptdb/cuda/tables/row_capture.h"
#include "ckptdb/cuda/tables/table_rows.h"
#include "ckptdb/manager/model_state.h"

namespace ckptdb::internal {

// What the parts of a HashTable know of it.
struct HashLayout {
  DeviceContext* context = nullptr;
  HashTable::Source* source = nullptr;
  cudaStream_t stream = nullptr;
  std::vector<Slot> slots;  // that of the scores last, if there is one
  bool has_scores = false;
  uint64_t value_bytes = 0;  // of a row, without its score
  uint64_t batch_rows = 0;

  size_t value_slots() const { return slots.size() - (has_scores ? 1 : 0); }
};

// Memory for a batch on the device. Used by one thread at a time. What is
// queued for it is on the side stream of the context.
class HashWindow {
 public:
  // Waits with the side stream for what the trainer has queued.
  static absl::StatusOr<std::unique_ptr<HashWindow>> Make(
      const HashLayout* layout);
  // Waits for what is queued.
  ~HashWindow();

  uint64_t rows() const { return layout_.batch_rows; }
  HashTable::Source::Batch batch() const;
  uint8_t* found() const;

  // Exports some places, with or without values, and returns the keys.
  absl::StatusOr<std::vector<int64_t>> Export(
      const HashTable::Source::ExportSpec& spec, bool with_values);
  // Returns the scores of the rows that were exported last.
  absl::StatusOr<std::vector<uint64_t>> ReadScores(uint64_t rows);
  // Looks up keys. Returns Internal naming the first that is not there.
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
  // Copies all rows of the table, or those of `ids` unless it is null, which
  // stay as long as it does.
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

  std::vector<Slot> slots_;  // with the codecs under which they are encoded
  bool refused_ = false;     // one of them, whose codec is gone now
  std::vector<std::unique_ptr<Part>> parts_;
};

}  // namespace ckptdb::internal

#endif  // CKPTDB_CUDA_TABLES_HASH_ROWS_H_
