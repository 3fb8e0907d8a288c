#include "train_ctr/table_rows.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"

namespace train_ctr {

std::vector<ckptdb::Slot> TableSlots(size_t dim) {
  using ckptdb::Codec;
  using ckptdb::DType;
  const auto width = static_cast<uint32_t>(dim);
  return {{"embedding", DType::kF32, width, Codec::kNone},
          {"adagrad_sum", DType::kF32, width, Codec::kNone},
          {"freq", DType::kI64, 1, Codec::kAuto},
          {"last_step", DType::kI64, 1, Codec::kAuto}};
}

TableRowSource::TableRowSource(const EmbeddingTable& table) {
  for (size_t c = 0; c < table.chunks(); ++c) {
    const EmbeddingTable::Chunk chunk = table.chunk(c);
    Add(chunk, table.dim())->all_ids = {chunk.ids, chunk.rows};
  }
}

absl::StatusOr<TableRowSource> TableRowSource::Of(
    const EmbeddingTable& table, absl::Span<const int64_t> ids) {
  std::vector<EmbeddingTable::Row> rows;
  rows.reserve(ids.size());
  for (const int64_t id : ids) {
    const auto row = table.Find(id);
    if (!row) {
      return absl::InternalError(
          absl::StrCat("row ", id, " of table \"", table.name(),
                       "\" was marked as upserted, and is not in the table"));
    }
    rows.push_back(*row);
  }
  // In the order of memory.
  std::sort(rows.begin(), rows.end());
  TableRowSource source;
  for (size_t i = 0; i < rows.size();) {
    const size_t c = rows[i] / EmbeddingTable::kRowsPerChunk;
    const EmbeddingTable::Chunk chunk = table.chunk(c);
    ChunkBlock* const block = source.Add(chunk, table.dim());
    for (; i < rows.size() && rows[i] / EmbeddingTable::kRowsPerChunk == c;
         ++i) {
      block->rows.push_back(rows[i] % EmbeddingTable::kRowsPerChunk);
      block->ids.push_back(chunk.ids[block->rows.back()]);
    }
  }
  return source;
}

TableRowSource::ChunkBlock* TableRowSource::Add(
    const EmbeddingTable::Chunk& chunk, size_t dim) {
  const uint64_t row_bytes = dim * sizeof(float);
  ChunkBlock& added = blocks_.emplace_back();
  added.slots = {{{chunk.embedding, row_bytes},
                  {chunk.adagrad_sum, row_bytes},
                  {chunk.freq, sizeof(int64_t)},
                  {chunk.last_step, sizeof(int64_t)}}};
  return &added;
}

absl::StatusOr<ckptdb::RowBlock> TableRowSource::Block(uint64_t block) const {
  const ChunkBlock& of = blocks_[block];
  if (of.rows.empty()) return ckptdb::RowBlock{of.all_ids, of.slots};
  return ckptdb::RowBlock{of.ids, of.slots, of.rows};
}

absl::Status LiveRows::Clear() {
  const std::lock_guard<std::mutex> lock(mutex_);
  table_->Clear();
  return absl::OkStatus();
}

absl::Status LiveRows::Consume(int, const ckptdb::RowBatch& batch) {
  const std::lock_guard<std::mutex> lock(mutex_);
  for (size_t i = 0; i < batch.ids.size(); ++i) {
    const EmbeddingTable::Row row = table_->Insert(batch.ids[i]);
    const EmbeddingTable::MutableRow to = table_->mutable_row(row);
    const size_t bytes = table_->dim() * sizeof(float);
    std::memcpy(to.embedding, batch.slots[0] + i * bytes, bytes);
    std::memcpy(to.adagrad_sum, batch.slots[1] + i * bytes, bytes);
    std::memcpy(to.freq, batch.slots[2] + i * sizeof(int64_t), sizeof(int64_t));
    std::memcpy(to.last_step, batch.slots[3] + i * sizeof(int64_t),
                sizeof(int64_t));
  }
  upserted_ += batch.ids.size();
  return absl::OkStatus();
}

absl::Status LiveRows::Erase(int, absl::Span<const int64_t> ids) {
  const std::lock_guard<std::mutex> lock(mutex_);
  for (const int64_t id : ids) table_->Erase(id);
  erased_ += ids.size();
  return absl::OkStatus();
}

}  // namespace train_ctr
