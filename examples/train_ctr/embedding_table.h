// SPDX-License-Identifier: Apache-2.0
// A dynamic embedding table: rows appear as their ids are seen, are trained by
// Adagrad, and are erased when they were not seen for a while.
//
//   EmbeddingTable users({.name = "user", .dim = 16, .seed = 1});
//   EmbeddingTable::Row row = users.Touch(id, step);
//   std::vector<int64_t> gone = users.EraseUnseenSince(step - 1000);
//   CKPTDB_RETURN_IF_ERROR(model.AddTable("user", users.state()));
#ifndef CKPTDB_EXAMPLES_TRAIN_CTR_EMBEDDING_TABLE_H_
#define CKPTDB_EXAMPLES_TRAIN_CTR_EMBEDDING_TABLE_H_

#include <ckptdb/manager/tables.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace train_ctr {

struct EmbeddingTableOptions {
  std::string name;
  // Floats of a row's embedding, and of its Adagrad sum.
  size_t dim = 16;
  uint64_t seed = 1;
};

// Returns the slots of a table in a checkpoint: embedding, adagrad_sum, freq
// and last_step.
std::vector<ckptdb::Slot> EmbeddingSlots(size_t dim);

// Returns the seed of the first values of the table's rows, of its name and
// the options' seed.
uint64_t TableSeed(const EmbeddingTableOptions& options);

// Rows are in a ckptdb::ColumnTable, which a checkpoint saves and restores, and
// which marks what changes. The number of a row depends on the order of
// insertions and erasures, its values do not: nothing a trainer computes may
// depend on row numbers. Not thread-safe.
class EmbeddingTable {
 public:
  // A row's number, good until the row is erased.
  using Row = uint64_t;

  struct MutableRow {
    float* embedding;
    float* adagrad_sum;
    int64_t* freq;
    int64_t* last_step;
  };

  explicit EmbeddingTable(EmbeddingTableOptions options);

  const std::string& name() const { return options_.name; }
  size_t dim() const { return options_.dim; }
  size_t rows() const { return columns_->size(); }
  // Returns the table that a checkpoint saves, with EmbeddingSlots.
  ckptdb::ColumnTable* state() const { return columns_.get(); }

  // Returns the row of `id`, which is created if missing; increments its
  // frequency, and marks it as changed. The first values of a row depend on the
  // seed, the table's name and the id.
  Row Touch(int64_t id, int64_t step);
  std::optional<Row> Find(int64_t id) const { return columns_->Find(id); }
  // Returns the row of `id`, which is created with zeros if missing.
  Row Insert(int64_t id) { return columns_->Insert(id).value().row; }
  MutableRow mutable_row(Row row) const {
    return {embedding_[row], adagrad_sum_[row], freq_[row], last_step_[row]};
  }
  const float* embedding(Row row) const { return embedding_[row]; }
  const float* adagrad_sum(Row row) const { return adagrad_sum_[row]; }
  int64_t freq(Row row) const { return *freq_[row]; }
  int64_t last_step(Row row) const { return *last_step_[row]; }
  // One Adagrad step with the gradient's `dim` values.
  void ApplyAdagrad(Row row, const float* gradient, float learning_rate);

  // Erases the rows last seen before `step`; returns their ids.
  std::vector<int64_t> EraseUnseenSince(int64_t step);

 private:
  EmbeddingTableOptions options_;
  uint64_t seed_;
  std::unique_ptr<ckptdb::ColumnTable> columns_;
  ckptdb::ColumnTable::Column<float> embedding_;
  ckptdb::ColumnTable::Column<float> adagrad_sum_;
  ckptdb::ColumnTable::Column<int64_t> freq_;
  ckptdb::ColumnTable::Column<int64_t> last_step_;
};

}  // namespace train_ctr

#endif  // CKPTDB_EXAMPLES_TRAIN_CTR_EMBEDDING_TABLE_H_
