// An embedding table as ckptdb sees it: its slots, its rows as a source for
// staging, and a table that takes the rows of a restore.
//
//   CKPTDB_ASSIGN_OR_RETURN(const TableRowSource changed,
//                           TableRowSource::Of(table, changes.upserted));
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
#include "absl/types/span.h"
#include "train_ctr/embedding_table.h"

namespace train_ctr {

inline constexpr size_t kTableSlots = 4;

// embedding, adagrad_sum, freq, last_step.
std::vector<ckptdb::Slot> TableSlots(size_t dim);

// Rows where the table has them, a block for each chunk of it; the table must
// not change meanwhile.
class TableRowSource : public ckptdb::RowSource {
 public:
  // All rows.
  explicit TableRowSource(const EmbeddingTable& table);
  // The rows of `ids`, none twice. Internal when the table has one of them not:
  // then somebody marked a row that is not there.
  static absl::StatusOr<TableRowSource> Of(const EmbeddingTable& table,
                                           absl::Span<const int64_t> ids);

  uint64_t block_count() const override { return blocks_.size(); }
  absl::StatusOr<ckptdb::RowBlock> Block(uint64_t block) const override;

 private:
  // Some rows of a chunk, or all: `rows` is empty then.
  struct ChunkBlock {
    std::array<ckptdb::SlotRows, kTableSlots> slots;
    std::vector<uint32_t> rows;
    std::vector<int64_t> ids;
    absl::Span<const int64_t> all_ids;
  };
  TableRowSource() = default;
  ChunkBlock* Add(const EmbeddingTable::Chunk& chunk, size_t dim);

  std::vector<ChunkBlock> blocks_;
};

// Puts rows of TableSlots, in that order, into a table, and takes them out.
class LiveRows : public ckptdb::LiveTable {
 public:
  explicit LiveRows(EmbeddingTable* table) : table_(table) {}

  absl::Status Clear() override;
  absl::Status Consume(int worker, const ckptdb::RowBatch& batch) override;
  absl::Status Erase(int worker, absl::Span<const int64_t> ids) override;

  // How many came so far; not to be called beside the above.
  uint64_t upserted() const { return upserted_; }
  uint64_t erased() const { return erased_; }

 private:
  std::mutex mutex_;
  // Guarded by mutex_.
  EmbeddingTable* table_;
  uint64_t upserted_ = 0;
  uint64_t erased_ = 0;
};

}  // namespace train_ctr

#endif  // CKPTDB_EXAMPLES_TRAIN_CTR_TABLE_ROWS_H_
