// A dynamic embedding table: rows appear as their ids are seen, are trained by
// Adagrad, and are erased when they were not seen for a while.
//
//   EmbeddingTable users({.name = "user", .dim = 16, .seed = 1});
//   EmbeddingTable::Row row = users.Touch(id, step);
//   std::vector<int64_t> gone = users.EraseUnseenSince(step - 1000);
#ifndef CKPTDB_EXAMPLES_TRAIN_CTR_EMBEDDING_TABLE_H_
#define CKPTDB_EXAMPLES_TRAIN_CTR_EMBEDDING_TABLE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"

namespace train_ctr {

struct EmbeddingTableOptions {
  std::string name;
  // Floats of a row's embedding, and of its Adagrad sum.
  size_t dim = 16;
  uint64_t seed = 1;
  // New embeddings are uniform in [-init_range, init_range). Default: 0.05.
  float init_range = 0.05f;
};

// Rows are numbered 0..rows()-1 without gaps. The number of a row depends on
// the order of insertions and erasures, its values do not: nothing a trainer
// computes may depend on row numbers. Not thread-safe.
class EmbeddingTable {
 public:
  // A row's number, good until the next erasure.
  using Row = uint32_t;
  static constexpr size_t kRowsPerChunk = 4096;

  // Consecutive rows, each slot of them an array without gaps. Good until the
  // next change of the table.
  struct Chunk {
    size_t rows;
    const int64_t* ids;
    const float* embedding;    // rows x dim
    const float* adagrad_sum;  // rows x dim
    const int64_t* freq;
    const int64_t* last_step;
  };

  struct MutableRow {
    float* embedding;
    float* adagrad_sum;
    int64_t* freq;
    int64_t* last_step;
  };

  explicit EmbeddingTable(EmbeddingTableOptions options)
      : options_(std::move(options)) {}

  const std::string& name() const { return options_.name; }
  size_t dim() const { return options_.dim; }
  size_t rows() const { return rows_; }

  // The row of `id`, created when there is none; counts the sight of it. The
  // first values of a row depend on the seed, the table's name and the id.
  Row Touch(int64_t id, int64_t step);
  std::optional<Row> Find(int64_t id) const;
  // The row of `id`, which is created with zeros when there is none.
  Row Insert(int64_t id);
  MutableRow mutable_row(Row row);

  int64_t id(Row row) const;
  const float* embedding(Row row) const;
  const float* adagrad_sum(Row row) const;
  int64_t freq(Row row) const;
  int64_t last_step(Row row) const;
  // One Adagrad step with the gradient's `dim` values.
  void ApplyAdagrad(Row row, const float* gradient, float learning_rate);

  // Erases the rows last seen before `step`; returns their ids.
  std::vector<int64_t> EraseUnseenSince(int64_t step);
  // False when there is no row of `id`.
  bool Erase(int64_t id);
  void Clear();

  size_t chunks() const { return chunks_.size(); }
  Chunk chunk(size_t index) const;

 private:
  struct Storage {
    std::unique_ptr<int64_t[]> ids;
    std::unique_ptr<float[]> embedding;
    std::unique_ptr<float[]> adagrad_sum;
    std::unique_ptr<int64_t[]> freq;
    std::unique_ptr<int64_t[]> last_step;
  };

  Row Append(int64_t id);
  void Initialize(Row row, int64_t id);
  void EraseRow(Row row);
  const Storage& storage(Row row) const { return chunks_[row / kRowsPerChunk]; }

  EmbeddingTableOptions options_;
  size_t rows_ = 0;
  // Looked up, never iterated.
  absl::flat_hash_map<int64_t, Row> row_of_id_;
  std::vector<Storage> chunks_;
};

}  // namespace train_ctr

#endif  // CKPTDB_EXAMPLES_TRAIN_CTR_EMBEDDING_TABLE_H_
