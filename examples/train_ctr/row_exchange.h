// SPDX-License-Identifier: Apache-2.0
// Embedding tables whose rows are divided among the ranks: brings the
// embeddings of a batch's ids to the rank that trains it, and their gradients
// back.
//
//   RowExchange rows(own, Sharding::kSlices, layout, &tables);
//   CKPTDB_RETURN_IF_ERROR(rows.Touch(ids, step, &embeddings));
//   CKPTDB_RETURN_IF_ERROR(rows.ApplyGradients(gradients, 0.02f));
//
// All ranks make the same calls in the same order. The ids of rank 0 count as
// before those of rank 1, and so on: the result depends on that order, and not
// on the number of ranks.
#ifndef CKPTDB_EXAMPLES_TRAIN_CTR_ROW_EXCHANGE_H_
#define CKPTDB_EXAMPLES_TRAIN_CTR_ROW_EXCHANGE_H_

#include <ckptdb/db/state.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "ranks/ranks.h"
#include "train_ctr/embedding_table.h"
#include "train_ctr/example.h"

namespace train_ctr {

// The rule by which rows are divided: a rank has a range of slices, or the ids
// of one remainder.
enum class Sharding { kSlices, kModulo };

// Returns the sharding that a checkpoint declares.
ckptdb::TableSharding DeclaredSharding(Sharding sharding);

// Not thread-safe. Its arguments outlive it.
class RowExchange {
 public:
  RowExchange(examples::Ranks* own, Sharding sharding,
              const FieldLayout* layout, std::vector<EmbeddingTable>* tables);

  // Puts the embedding of ids[i], which is one of field i % fields, to
  // embeddings[i * dim]. Touch counts the sight of it at `step`, and makes the
  // rows that do not exist. LookUp gives zeros for those.
  absl::Status Touch(const std::vector<int64_t>& ids, int64_t step,
                     std::vector<float>* embeddings);
  absl::Status LookUp(const std::vector<int64_t>& ids,
                      std::vector<float>* embeddings);

  // Makes a step of Adagrad, with the gradients of the ids of the last Touch.
  // A row gets the sum of the gradients of all places that name it.
  absl::Status ApplyGradients(const std::vector<float>& gradients,
                              float learning_rate);

 private:
  struct Key {
    int64_t id = 0;
    uint64_t table = 0;
  };
  struct Place {
    size_t table = 0;
    EmbeddingTable::Row row = 0;
  };
  // The gradients of the rows of one table in one batch, in the order in
  // which the batch first names them.
  struct RowGradients {
    std::vector<EmbeddingTable::Row> rows;
    std::vector<float> sums;             // rows.size() x dim
    std::vector<uint32_t> place_of_row;  // by row, kNoPlace outside a batch
  };
  static constexpr uint32_t kNoPlace = UINT32_MAX;

  size_t RankOf(int64_t id) const;
  // Sends each rank the ids that are its own, and returns what came.
  absl::StatusOr<examples::PerRank<Key>> AskFor(
      const std::vector<int64_t>& ids);
  absl::Status Answer(const examples::PerRank<float>& answers,
                      std::vector<float>* embeddings);
  void AddGradient(Place place, const float* gradient);

  examples::Ranks* const own_;
  const Sharding sharding_;
  const FieldLayout* const layout_;
  std::vector<EmbeddingTable>* const tables_;
  const size_t dim_;
  const std::vector<uint32_t> slice_bounds_;

  // The last call left these: the numbers of the ids that each rank was asked
  // for, and the rows that each has touched here.
  examples::PerRank<size_t> asked_;
  examples::PerRank<Place> touched_;
  std::vector<RowGradients> row_gradients_;  // by table
};

}  // namespace train_ctr

#endif  // CKPTDB_EXAMPLES_TRAIN_CTR_ROW_EXCHANGE_H_
