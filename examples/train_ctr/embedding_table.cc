#include "train_ctr/embedding_table.h"

#include <xxhash.h>

#include <algorithm>
#include <cmath>

#include "train_ctr/random.h"

namespace train_ctr {
namespace {

constexpr float kAdagradEpsilon = 1e-8f;

}  // namespace

EmbeddingTable::Row EmbeddingTable::Touch(int64_t id, int64_t step) {
  const auto [entry, created] =
      row_of_id_.try_emplace(id, static_cast<Row>(rows_));
  const Row row = entry->second;
  if (created) {
    Append(id);
    Initialize(row, id);
  }
  ++storage(row).freq[row % kRowsPerChunk];
  storage(row).last_step[row % kRowsPerChunk] = step;
  return row;
}

std::optional<EmbeddingTable::Row> EmbeddingTable::Find(int64_t id) const {
  const auto entry = row_of_id_.find(id);
  if (entry == row_of_id_.end()) return std::nullopt;
  return entry->second;
}

EmbeddingTable::Row EmbeddingTable::Insert(int64_t id) {
  const auto [entry, created] =
      row_of_id_.try_emplace(id, static_cast<Row>(rows_));
  if (created) Append(id);
  return entry->second;
}

EmbeddingTable::MutableRow EmbeddingTable::mutable_row(Row row) {
  const Storage& of = storage(row);
  const size_t at = row % kRowsPerChunk;
  return {&of.embedding[at * dim()], &of.adagrad_sum[at * dim()], &of.freq[at],
          &of.last_step[at]};
}

EmbeddingTable::Row EmbeddingTable::Append(int64_t id) {
  if (rows_ % kRowsPerChunk == 0) {
    const size_t floats = kRowsPerChunk * options_.dim;
    chunks_.push_back({std::make_unique<int64_t[]>(kRowsPerChunk),
                       std::make_unique<float[]>(floats),
                       std::make_unique<float[]>(floats),
                       std::make_unique<int64_t[]>(kRowsPerChunk),
                       std::make_unique<int64_t[]>(kRowsPerChunk)});
  }
  const Row row = static_cast<Row>(rows_++);
  const size_t at = row % kRowsPerChunk;
  const Storage& to = storage(row);
  to.ids[at] = id;
  std::fill_n(&to.embedding[at * dim()], dim(), 0.0f);
  std::fill_n(&to.adagrad_sum[at * dim()], dim(), 0.0f);
  to.freq[at] = 0;
  to.last_step[at] = 0;
  return row;
}

void EmbeddingTable::Initialize(Row row, int64_t id) {
  const uint64_t table =
      XXH3_64bits_withSeed(name().data(), name().size(), options_.seed);
  Random random(Mix(table, static_cast<uint64_t>(id)));
  float* values = &storage(row).embedding[row % kRowsPerChunk * dim()];
  for (size_t d = 0; d < dim(); ++d) {
    values[d] =
        options_.init_range * static_cast<float>(2 * random.NextUnit() - 1);
  }
}

int64_t EmbeddingTable::id(Row row) const {
  return storage(row).ids[row % kRowsPerChunk];
}

const float* EmbeddingTable::embedding(Row row) const {
  return &storage(row).embedding[row % kRowsPerChunk * dim()];
}

const float* EmbeddingTable::adagrad_sum(Row row) const {
  return &storage(row).adagrad_sum[row % kRowsPerChunk * dim()];
}

int64_t EmbeddingTable::freq(Row row) const {
  return storage(row).freq[row % kRowsPerChunk];
}

int64_t EmbeddingTable::last_step(Row row) const {
  return storage(row).last_step[row % kRowsPerChunk];
}

void EmbeddingTable::ApplyAdagrad(Row row, const float* gradient,
                                  float learning_rate) {
  const size_t at = row % kRowsPerChunk * dim();
  float* values = &storage(row).embedding[at];
  float* sums = &storage(row).adagrad_sum[at];
  for (size_t d = 0; d < dim(); ++d) {
    sums[d] += gradient[d] * gradient[d];
    values[d] -=
        learning_rate * gradient[d] / (std::sqrt(sums[d]) + kAdagradEpsilon);
  }
}

std::vector<int64_t> EmbeddingTable::EraseUnseenSince(int64_t step) {
  std::vector<int64_t> erased;
  for (Row row = 0; row < rows_;) {
    if (last_step(row) < step) {
      erased.push_back(id(row));
      EraseRow(row);
    } else {
      ++row;
    }
  }
  return erased;
}

bool EmbeddingTable::Erase(int64_t id) {
  const auto row = Find(id);
  if (row) EraseRow(*row);
  return row.has_value();
}

// The last row moves into the gap.
void EmbeddingTable::EraseRow(Row row) {
  const Row last = static_cast<Row>(rows_ - 1);
  const Storage& to = storage(row);
  const Storage& from = storage(last);
  const size_t to_at = row % kRowsPerChunk;
  const size_t from_at = last % kRowsPerChunk;
  row_of_id_[from.ids[from_at]] = row;
  row_of_id_.erase(to.ids[to_at]);
  to.ids[to_at] = from.ids[from_at];
  to.freq[to_at] = from.freq[from_at];
  to.last_step[to_at] = from.last_step[from_at];
  if (row != last) {
    std::copy_n(&from.embedding[from_at * dim()], dim(),
                &to.embedding[to_at * dim()]);
    std::copy_n(&from.adagrad_sum[from_at * dim()], dim(),
                &to.adagrad_sum[to_at * dim()]);
  }
  if (--rows_ % kRowsPerChunk == 0) chunks_.pop_back();
}

void EmbeddingTable::Clear() {
  rows_ = 0;
  row_of_id_.clear();
  chunks_.clear();
}

EmbeddingTable::Chunk EmbeddingTable::chunk(size_t index) const {
  const Storage& from = chunks_[index];
  return {std::min(kRowsPerChunk, rows_ - index * kRowsPerChunk),
          from.ids.get(),
          from.embedding.get(),
          from.adagrad_sum.get(),
          from.freq.get(),
          from.last_step.get()};
}

}  // namespace train_ctr
