// An embedding table as ckptdb sees it: its slots, its rows as a source for
// staging, and a sink for the rows of a scan.
#ifndef CKPTDB_EXAMPLES_TRAIN_CTR_TABLE_ROWS_H_
#define CKPTDB_EXAMPLES_TRAIN_CTR_TABLE_ROWS_H_

#include <ckptdb/db/state.h>
#include <ckptdb/db/step_reader.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "train_ctr/embedding_table.h"

namespace train_ctr {

inline constexpr size_t kTableSlots = 4;

// embedding, adagrad_sum, freq, last_step.
std::vector<ckptdb::Slot> TableSlots(size_t dim);

// A block for each chunk of the table, which must not change meanwhile.
class TableRowSource : public ckptdb::RowSource {
 public:
  explicit TableRowSource(const EmbeddingTable& table);

  uint64_t block_count() const override { return blocks_.size(); }
  absl::StatusOr<ckptdb::RowBlock> Block(uint64_t block) const override;

 private:
  struct ChunkBlock {
    absl::Span<const int64_t> ids;
    std::array<ckptdb::SlotRows, kTableSlots> slots;
  };
  std::vector<ChunkBlock> blocks_;
};

// Inserts the rows of a scan of TableSlots, in that order, into a table.
class TableRowSink : public ckptdb::RowSink {
 public:
  explicit TableRowSink(EmbeddingTable* table) : table_(table) {}

  absl::Status Consume(int worker, const ckptdb::RowBatch& batch) override;

 private:
  std::mutex mutex_;
  EmbeddingTable* table_;  // guarded by mutex_
};

}  // namespace train_ctr

#endif  // CKPTDB_EXAMPLES_TRAIN_CTR_TABLE_ROWS_H_
