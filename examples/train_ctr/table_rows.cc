#include "train_ctr/table_rows.h"

#include <cstring>

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
  const uint64_t row_bytes = table.dim() * sizeof(float);
  for (size_t c = 0; c < table.chunks(); ++c) {
    const EmbeddingTable::Chunk chunk = table.chunk(c);
    blocks_.push_back({{chunk.ids, chunk.rows},
                       {{{chunk.embedding, row_bytes},
                         {chunk.adagrad_sum, row_bytes},
                         {chunk.freq, sizeof(int64_t)},
                         {chunk.last_step, sizeof(int64_t)}}}});
  }
}

absl::StatusOr<ckptdb::RowBlock> TableRowSource::Block(uint64_t block) const {
  return ckptdb::RowBlock{blocks_[block].ids, blocks_[block].slots};
}

absl::Status TableRowSink::Consume(int, const ckptdb::RowBatch& batch) {
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
  return absl::OkStatus();
}

}  // namespace train_ctr
