// SPDX-License-Identifier: Apache-2.0
#include "train_ctr/row_exchange.h"

#include <ckptdb/schema/types.h>

#include <algorithm>
#include <utility>

namespace train_ctr {

using ::examples::PerRank;

ckptdb::TableSharding DeclaredSharding(Sharding sharding) {
  return sharding == Sharding::kModulo ? ckptdb::TableSharding::ByModulo()
                                       : ckptdb::TableSharding::BySlices();
}

RowExchange::RowExchange(examples::Ranks* own, Sharding sharding,
                         const FieldLayout* layout,
                         std::vector<EmbeddingTable>* tables)
    : own_(own),
      sharding_(sharding),
      layout_(layout),
      tables_(tables),
      dim_(tables->front().dim()),
      slice_bounds_(ckptdb::EvenSliceBounds(own->size())),
      row_gradients_(tables->size()) {}

size_t RowExchange::RankOf(int64_t id) const {
  if (sharding_ == Sharding::kModulo) {
    return static_cast<uint64_t>(id) % own_->size();
  }
  const uint16_t slice = ckptdb::SliceOf(id, ckptdb::SliceHash::kModulo);
  const auto next =
      std::upper_bound(slice_bounds_.begin(), slice_bounds_.end(), slice);
  return static_cast<size_t>(next - slice_bounds_.begin()) - 1;
}

absl::StatusOr<PerRank<RowExchange::Key>> RowExchange::AskFor(
    const std::vector<int64_t>& ids) {
  asked_.assign(own_->size(), {});
  PerRank<Key> keys(own_->size());
  for (size_t i = 0; i < ids.size(); ++i) {
    const size_t rank = RankOf(ids[i]);
    asked_[rank].push_back(i);
    keys[rank].push_back(
        {ids[i], layout_->table_of_field[i % layout_->fields()]});
  }
  return examples::Exchange(own_, "ids", keys);
}

absl::Status RowExchange::Answer(const PerRank<float>& answers,
                                 std::vector<float>* embeddings) {
  CKPTDB_ASSIGN_OR_RETURN(const PerRank<float> received,
                          examples::Exchange(own_, "embeddings", answers));
  size_t ids = 0;
  for (const std::vector<size_t>& asked : asked_) ids += asked.size();
  embeddings->resize(ids * dim_);
  for (size_t r = 0; r < received.size(); ++r) {
    for (size_t k = 0; k < asked_[r].size(); ++k) {
      std::copy_n(&received[r][k * dim_], dim_,
                  &(*embeddings)[asked_[r][k] * dim_]);
    }
  }
  return absl::OkStatus();
}

absl::Status RowExchange::Touch(const std::vector<int64_t>& ids, int64_t step,
                                std::vector<float>* embeddings) {
  CKPTDB_ASSIGN_OR_RETURN(const PerRank<Key> keys, AskFor(ids));
  touched_.assign(keys.size(), {});
  PerRank<float> answers(keys.size());
  for (size_t r = 0; r < keys.size(); ++r) {
    for (const Key& key : keys[r]) {
      EmbeddingTable& table = (*tables_)[key.table];
      const EmbeddingTable::Row row = table.Touch(key.id, step);
      touched_[r].push_back({key.table, row});
      const float* values = table.embedding(row);
      answers[r].insert(answers[r].end(), values, values + dim_);
    }
  }
  return Answer(answers, embeddings);
}

absl::Status RowExchange::LookUp(const std::vector<int64_t>& ids,
                                 std::vector<float>* embeddings) {
  CKPTDB_ASSIGN_OR_RETURN(const PerRank<Key> keys, AskFor(ids));
  PerRank<float> answers(keys.size());
  for (size_t r = 0; r < keys.size(); ++r) {
    answers[r].assign(keys[r].size() * dim_, 0);
    for (size_t k = 0; k < keys[r].size(); ++k) {
      const EmbeddingTable& table = (*tables_)[keys[r][k].table];
      const auto row = table.Find(keys[r][k].id);
      if (!row) continue;
      std::copy_n(table.embedding(*row), dim_, &answers[r][k * dim_]);
    }
  }
  return Answer(answers, embeddings);
}

absl::Status RowExchange::ApplyGradients(const std::vector<float>& gradients,
                                         float learning_rate) {
  PerRank<float> sent(own_->size());
  for (size_t r = 0; r < sent.size(); ++r) {
    for (const size_t i : asked_[r]) {
      const float* gradient = &gradients[i * dim_];
      sent[r].insert(sent[r].end(), gradient, gradient + dim_);
    }
  }
  CKPTDB_ASSIGN_OR_RETURN(const PerRank<float> received,
                          examples::Exchange(own_, "row gradients", sent));
  for (size_t r = 0; r < received.size(); ++r) {
    for (size_t k = 0; k < touched_[r].size(); ++k) {
      AddGradient(touched_[r][k], &received[r][k * dim_]);
    }
  }
  for (size_t t = 0; t < tables_->size(); ++t) {
    RowGradients& of_table = row_gradients_[t];
    for (size_t place = 0; place < of_table.rows.size(); ++place) {
      const EmbeddingTable::Row row = of_table.rows[place];
      (*tables_)[t].ApplyAdagrad(row, &of_table.sums[place * dim_],
                                 learning_rate);
      of_table.place_of_row[row] = kNoPlace;
    }
    of_table.rows.clear();
    of_table.sums.clear();
  }
  return absl::OkStatus();
}

void RowExchange::AddGradient(Place at, const float* gradient) {
  RowGradients& of_table = row_gradients_[at.table];
  of_table.place_of_row.resize(
      std::max<size_t>(of_table.place_of_row.size(), at.row + 1), kNoPlace);
  uint32_t& place = of_table.place_of_row[at.row];
  if (place == kNoPlace) {
    place = static_cast<uint32_t>(of_table.rows.size());
    of_table.rows.push_back(at.row);
    of_table.sums.resize(of_table.rows.size() * dim_, 0.0f);
  }
  float* sum = &of_table.sums[place * dim_];
  for (size_t d = 0; d < dim_; ++d) sum[d] += gradient[d];
}

}  // namespace train_ctr
