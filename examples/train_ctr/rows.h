// SPDX-License-Identifier: Apache-2.0
// The embedding tables of a model: the rows of a batch's ids, and their
// training by Adagrad.
//
//   CKPTDB_RETURN_IF_ERROR(rows->Touch(ids, step, inputs));
//   CKPTDB_RETURN_IF_ERROR(rows->ApplyGradients(gradients, 0.02f));
#ifndef CKPTDB_EXAMPLES_TRAIN_CTR_ROWS_H_
#define CKPTDB_EXAMPLES_TRAIN_CTR_ROWS_H_

#include <ckptdb/manager/model_state.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "ranks/ranks.h"
#include "train_ctr/embedding_table.h"
#include "train_ctr/log.h"

namespace train_ctr {

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
