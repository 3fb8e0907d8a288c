#include "train_ctr/embedding_table.h"

#include <xxhash.h>

#include <cmath>
#include <utility>

#include "train_ctr/random.h"

namespace train_ctr {
namespace {

constexpr float kAdagradEpsilon = 1e-8f;

std::vector<ckptdb::Slot> SlotsOf(size_t dim) {
  using ckptdb::Codec;
  using ckptdb::DType;
  const auto width = static_cast<uint32_t>(dim);
  return {{"embedding", DType::kF32, width, Codec::kNone},
          {"adagrad_sum", DType::kF32, width, Codec::kNone},
          {"freq", DType::kI64, 1, Codec::kAuto},
          {"last_step", DType::kI64, 1, Codec::kAuto}};
}

// Returns the column of a slot, or an empty one if the table is too wide, which
// nobody uses.
template <typename T>
ckptdb::ColumnTable::Column<T> ColumnOf(const ckptdb::ColumnTable& table,
                                        absl::string_view slot) {
  return table.column<T>(slot).value_or(ckptdb::ColumnTable::Column<T>());
}

}  // namespace

EmbeddingTable::EmbeddingTable(EmbeddingTableOptions options)
    : options_(std::move(options)),
      columns_(std::make_unique<ckptdb::ColumnTable>(SlotsOf(options_.dim))),
      embedding_(ColumnOf<float>(*columns_, "embedding")),
      adagrad_sum_(ColumnOf<float>(*columns_, "adagrad_sum")),
      freq_(ColumnOf<int64_t>(*columns_, "freq")),
      last_step_(ColumnOf<int64_t>(*columns_, "last_step")) {}

EmbeddingTable::Row EmbeddingTable::Touch(int64_t id, int64_t step) {
  const auto [row, is_new] = columns_->Insert(id).value();
  if (is_new) {
    const uint64_t table =
        XXH3_64bits_withSeed(name().data(), name().size(), options_.seed);
    Random random(Mix(table, static_cast<uint64_t>(id)));
    float* const values = embedding_[row];
    for (size_t d = 0; d < dim(); ++d) {
      values[d] =
          options_.init_range * static_cast<float>(2 * random.NextUnit() - 1);
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
    sums[d] += gradient[d] * gradient[d];
    values[d] -=
        learning_rate * gradient[d] / (std::sqrt(sums[d]) + kAdagradEpsilon);
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
