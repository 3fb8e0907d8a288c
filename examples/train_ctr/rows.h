// SPDX-License-Identifier: Apache-2.0
// The embedding tables of a model: the rows of a batch's ids, and their
// training by Adagrad.
//
//   CKPTDB_RETURN_IF_ERROR(rows->Touch(ids, step, inputs));
//   CKPTDB_RETURN_IF_ERROR(rows->ApplyGradients(gradients, 0.02f));
#ifndef CKPTDB_EXAMPLES_TRAIN_CTR_ROWS_H_
#define CKPTDB_EXAMPLES_TRAIN_CTR_ROWS_H_

#include <ckptdb/manager/model_state.h>
#include <ckptdb/manager/tables.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "ranks/ranks.h"
#include "train_ctr/log.h"

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

// The rule by which rows are divided among ranks: a rank has a range of slices,
// or the ids of one remainder.
enum class Sharding { kSlices, kModulo };

// Pointers are to memory of the model's machine. All ranks make the same calls.
// After an error the object must not be used further. Not thread-safe.
class Rows {
 public:
  virtual ~Rows() = default;

  // Put the embedding of ids[i], which is one of field i % fields, to
  // inputs[i * dim]. Touch counts the sight of it at `step`, and makes the rows
  // that do not exist. LookUp gives zeros for those.
  virtual absl::Status Touch(const std::vector<int64_t>& ids, int64_t step,
                             float* inputs) = 0;
  virtual absl::Status LookUp(const std::vector<int64_t>& ids,
                              float* inputs) = 0;
  // Makes a step of Adagrad, with the gradients by the inputs of the last
  // Touch. A row gets the sum of the gradients of all places that name it.
  virtual absl::Status ApplyGradients(const float* gradients,
                                      float learning_rate) = 0;
  // Erases the rows last seen before `step`.
  virtual absl::Status EraseUnseenSince(int64_t step) = 0;

  // Returns the number of rows of all tables of this rank.
  virtual size_t size() const = 0;
  // Returns the tables in host memory, valid until the next call.
  virtual absl::StatusOr<std::vector<const EmbeddingTable*>> View() = 0;
  virtual absl::Status Register(ckptdb::ModelState* state) = 0;
  // A manager has restored registered tables.
  virtual absl::Status OnRestored() = 0;
};

// Tables in host memory, whose rows are divided among the ranks. Each rank
// changes its own rows, and gets the embeddings of all ids of a batch.
class HostRows final : public Rows {
 public:
  // The arguments outlive it.
  HostRows(const std::vector<EmbeddingTableOptions>& tables,
           const FieldLayout* layout, examples::Ranks* own, Sharding sharding);

  absl::Status Touch(const std::vector<int64_t>& ids, int64_t step,
                     float* inputs) override;
  absl::Status LookUp(const std::vector<int64_t>& ids, float* inputs) override;
  absl::Status ApplyGradients(const float* gradients,
                              float learning_rate) override;
  absl::Status EraseUnseenSince(int64_t step) override;
  size_t size() const override;
  absl::StatusOr<std::vector<const EmbeddingTable*>> View() override;
  absl::Status Register(ckptdb::ModelState* state) override;
  absl::Status OnRestored() override { return absl::OkStatus(); }

  std::vector<EmbeddingTable>& tables() { return tables_; }

 private:
  // A place of a batch whose id is one of this rank's.
  struct Place {
    size_t place = 0;
    size_t table = 0;
    EmbeddingTable::Row row = 0;
  };

  size_t RankOf(int64_t id) const;
  // Finds the rows of this rank's ids, and exchanges their embeddings.
  absl::Status Gather(const std::vector<int64_t>& ids,
                      const std::function<std::optional<EmbeddingTable::Row>(
                          EmbeddingTable* table, int64_t id)>& find,
                      float* inputs);

  const FieldLayout* const layout_;
  examples::Ranks* const own_;
  const Sharding sharding_;
  const std::vector<uint32_t> slice_bounds_;
  std::vector<EmbeddingTable> tables_;
  std::vector<Place> places_;  // of the last Touch or LookUp
};

}  // namespace train_ctr

#endif  // CKPTDB_EXAMPLES_TRAIN_CTR_ROWS_H_
