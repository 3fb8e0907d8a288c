// SPDX-License-Identifier: Apache-2.0
// The model of a training, and its work while its manager saves it.
#ifndef CKPTDB_BENCH_STALL_MODEL_H_
#define CKPTDB_BENCH_STALL_MODEL_H_

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "bench/payload.h"
#include "manager/model_state.h"

namespace ckptdb::bench {

// The container of the rows of a training: arrays by row number (VectorTable),
// a ColumnTable, or a std::unordered_map with a node for each row (MapTable).
enum class StallRows { kArrays, kColumns, kMap };

// 64 f32 of an embedding and 64 f32 of its optimizer a row.
class StallTable {
 public:
  static absl::StatusOr<std::unique_ptr<StallTable>> Make(StallRows kind,
                                                          uint64_t rows,
                                                          uint64_t seed);
  virtual ~StallTable() = default;

  virtual TableState* state() = 0;
  // Changes one row of each kRowsPerChange, another one with each seed.
  static constexpr uint64_t kRowsPerChange = 32;
  absl::Status Change(uint64_t seed);
  uint64_t changed_bytes() const;
  uint64_t changed_rows() const { return changed_.size(); }
  // Copies `count` of the changed rows from `first` on to `to`. They are in the
  // order in which the table was made.
  void CopyChanged(uint64_t first, uint64_t count, char* to) const;

 protected:
  using RowValues = std::array<char*, 2>;  // embedding, optimizer

  explicit StallTable(uint64_t rows) : rows_(rows) {}
  uint64_t rows() const { return rows_; }
  // Finds the values of the rows, which are about to change.
  virtual absl::Status Touch(absl::Span<const int64_t> ids,
                             std::vector<RowValues>* values) = 0;
  // Returns the id of the row that was made at this place.
  virtual int64_t IdAt(uint64_t place) const = 0;

 private:
  const uint64_t rows_;
  std::vector<int64_t> changed_;
  std::vector<RowValues> values_;  // of the changed rows
};

// The table, and tensors of about as many bytes as change of it in a step.
class StallModel {
 public:
  static absl::StatusOr<std::unique_ptr<StallModel>> Make(StallRows kind,
                                                          uint64_t rows,
                                                          uint64_t seed);

  // Changes the rows and tensors that the next save copies.
  absl::Status Train(uint64_t seed);
  uint64_t bytes_to_copy() const;
  const StallTable& table() const { return *table_; }
  Memory tensors() const { return tensors_.memory(); }
  ModelState* state() { return &state_; }

 private:
  StallModel(std::unique_ptr<StallTable> table, Pages tensors);

  const std::unique_ptr<StallTable> table_;
  const Pages tensors_;
  ModelState state_;
};

// Threads that compute, like a trainer's, until the object is destroyed.
class Trainers {
 public:
  explicit Trainers(int threads);
  ~Trainers();
  Trainers(const Trainers&) = delete;
  Trainers& operator=(const Trainers&) = delete;

 private:
  void Compute();

  std::atomic<bool> stop_ = false;
  std::atomic<float> sum_ = 0;  // so that nothing is left out
  std::vector<std::thread> threads_;
};

}  // namespace ckptdb::bench

#endif  // CKPTDB_BENCH_STALL_MODEL_H_
