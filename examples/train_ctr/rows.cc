// SPDX-License-Identifier: Apache-2.0
#include "train_ctr/rows.h"

#include <ckptdb/schema/status.h>
#include <ckptdb/schema/types.h>
#include <xxhash.h>

#include <algorithm>
#include <unordered_map>
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

HostRows::HostRows(const std::vector<EmbeddingTableOptions>& tables,
                   const FieldLayout* layout, examples::Ranks* own,
                   Sharding sharding)
    : layout_(layout),
      own_(own),
      sharding_(sharding),
      slice_bounds_(ckptdb::EvenSliceBounds(own->size())),
      tables_(tables.begin(), tables.end()) {}

size_t HostRows::RankOf(int64_t id) const {
  if (sharding_ == Sharding::kModulo) {
    return static_cast<uint64_t>(id) % own_->size();
  }
  const uint16_t slice = ckptdb::SliceOf(id, ckptdb::SliceHash::kModulo);
  const auto next =
      std::upper_bound(slice_bounds_.begin(), slice_bounds_.end(), slice);
  return static_cast<size_t>(next - slice_bounds_.begin()) - 1;
}

absl::Status HostRows::Gather(
    const std::vector<int64_t>& ids,
    const std::function<std::optional<EmbeddingTable::Row>(
        EmbeddingTable* table, int64_t id)>& find,
    float* inputs) {
  const size_t dim = tables_.front().dim();
  places_.clear();
  std::vector<float> embeddings;
  for (size_t i = 0; i < ids.size(); ++i) {
    if (RankOf(ids[i]) != own_->rank()) continue;
    const size_t t = layout_->table_of_field[i % layout_->fields()];
    const auto row = find(&tables_[t], ids[i]);
    if (row) places_.push_back({i, t, *row});
    embeddings.resize(embeddings.size() + dim, 0);
    if (!row) continue;
    std::copy_n(tables_[t].embedding(*row), dim, embeddings.end() - dim);
  }
  CKPTDB_ASSIGN_OR_RETURN(const examples::PerRank<float> of_ranks,
                          examples::AllGather(own_, "embeddings", embeddings));
  std::vector<const float*> next;
  for (const std::vector<float>& of : of_ranks) next.push_back(of.data());
  for (size_t i = 0; i < ids.size(); ++i) {
    const float*& from = next[RankOf(ids[i])];
    std::copy_n(from, dim, inputs + i * dim);
    from += dim;
  }
  return absl::OkStatus();
}

absl::Status HostRows::Touch(const std::vector<int64_t>& ids, int64_t step,
                             float* inputs) {
  return Gather(
      ids,
      [step](EmbeddingTable* table, int64_t id) {
        return std::optional(table->Touch(id, step));
      },
      inputs);
}

absl::Status HostRows::LookUp(const std::vector<int64_t>& ids, float* inputs) {
  return Gather(
      ids, [](EmbeddingTable* table, int64_t id) { return table->Find(id); },
      inputs);
}

absl::Status HostRows::ApplyGradients(const float* gradients,
                                      float learning_rate) {
  const size_t dim = tables_.front().dim();
  for (size_t t = 0; t < tables_.size(); ++t) {
    std::unordered_map<EmbeddingTable::Row, size_t> sum_of_row;
    std::vector<float> sums;
    for (const Place& at : places_) {
      if (at.table != t) continue;
      const size_t sum =
          sum_of_row.try_emplace(at.row, sums.size()).first->second;
      if (sum == sums.size()) sums.resize(sum + dim, 0);
      const float* const gradient = gradients + at.place * dim;
      for (size_t d = 0; d < dim; ++d) sums[sum + d] += gradient[d];
    }
    for (const auto& [row, sum] : sum_of_row) {
      tables_[t].ApplyAdagrad(row, &sums[sum], learning_rate);
    }
  }
  return absl::OkStatus();
}

absl::Status HostRows::EraseUnseenSince(int64_t step) {
  for (EmbeddingTable& table : tables_) table.EraseUnseenSince(step);
  return absl::OkStatus();
}

size_t HostRows::size() const {
  size_t rows = 0;
  for (const EmbeddingTable& table : tables_) rows += table.rows();
  return rows;
}

absl::StatusOr<std::vector<const EmbeddingTable*>> HostRows::View() {
  std::vector<const EmbeddingTable*> view;
  for (const EmbeddingTable& table : tables_) view.push_back(&table);
  return view;
}

absl::Status HostRows::Register(ckptdb::ModelState* state) {
  const auto sharding = sharding_ == Sharding::kModulo
                            ? ckptdb::TableSharding::ByModulo()
                            : ckptdb::TableSharding::BySlices();
  for (const EmbeddingTable& table : tables_) {
    CKPTDB_RETURN_IF_ERROR(
        state->AddTable(table.name(), table.state(), sharding));
  }
  return absl::OkStatus();
}

}  // namespace train_ctr
