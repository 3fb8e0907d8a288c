// SPDX-License-Identifier: Apache-2.0
#include "train_ctr/embedding_table.h"

#include <xxhash.h>

#include <utility>

#include "train_ctr/math.h"

namespace train_ctr {
namespace {

// Returns the column of a slot, or an empty one if the table is too wide, which
// nobody uses.
template <typename T>
ckptdb::ColumnTable::Column<T> ColumnOf(const ckptdb::ColumnTable& table,
                                        absl::string_view slot) {
  return table.column<T>(slot).value_or(ckptdb::ColumnTable::Column<T>());
}

}  // namespace

std::vector<ckptdb::Slot> EmbeddingSlots(size_t dim) {
  using ckptdb::Codec;
  using ckptdb::DType;
  const auto width = static_cast<uint32_t>(dim);
  return {{"embedding", DType::kF32, width, Codec::kNone},
          {"adagrad_sum", DType::kF32, width, Codec::kNone},
          {"freq", DType::kI64, 1, Codec::kAuto},
          {"last_step", DType::kI64, 1, Codec::kAuto}};
}

uint64_t TableSeed(const EmbeddingTableOptions& options) {
  return XXH3_64bits_withSeed(options.name.data(), options.name.size(),
                              options.seed);
}

EmbeddingTable::EmbeddingTable(EmbeddingTableOptions options)
    : options_(std::move(options)),
      seed_(TableSeed(options_)),
      columns_(
          std::make_unique<ckptdb::ColumnTable>(EmbeddingSlots(options_.dim))),
      embedding_(ColumnOf<float>(*columns_, "embedding")),
      adagrad_sum_(ColumnOf<float>(*columns_, "adagrad_sum")),
      freq_(ColumnOf<int64_t>(*columns_, "freq")),
      last_step_(ColumnOf<int64_t>(*columns_, "last_step")) {}

EmbeddingTable::Row EmbeddingTable::Touch(int64_t id, int64_t step) {
  const auto [row, is_new] = columns_->Insert(id).value();
  if (is_new) {
    float* const values = embedding_[row];
    for (size_t d = 0; d < dim(); ++d) {
      values[d] = InitialEmbedding(seed_, id, d);
    }
  }
  ++*freq_[row];
  *last_step_[row] = step;
  return row;
}

void EmbeddingTable::ApplyAdagrad(Row row, const float* gradient,
                                  float learning_rate) {
  float* const values = embedding_[row];
  float* const sums = adagrad_sum_[row];
  for (size_t d = 0; d < dim(); ++d) {
    AdagradStep(gradient[d], learning_rate, &sums[d], &values[d]);
  }
}

std::vector<int64_t> EmbeddingTable::EraseUnseenSince(int64_t step) {
  std::vector<int64_t> erased;
  columns_->ForEach([&](int64_t id, Row row) {
    if (last_step(row) < step) erased.push_back(id);
  });
  columns_->Erase(erased);
  return erased;
}

}  // namespace train_ctr
