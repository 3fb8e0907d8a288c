// What a training has and does while its manager saves it.
#ifndef CKPTDB_BENCH_STALL_MODEL_H_
#define CKPTDB_BENCH_STALL_MODEL_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "ckptdb/bench/payload.h"
#include "ckptdb/manager/model_state.h"

namespace ckptdb::bench {

// 64 f32 of an embedding and 64 f32 of its optimizer for the ids 0, 1, 2, ...
class TrackedTable : public TableState {
 public:
  static absl::StatusOr<std::unique_ptr<TrackedTable>> Make(uint64_t rows,
                                                            uint64_t seed);

  // Changes one row of each kRowsPerChange, another one with each seed.
  static constexpr uint64_t kRowsPerChange = 32;
  void Change(uint64_t seed);
  uint64_t changed_bytes() const;
  // Of the changed rows, in the order of the table: `count` of them from
  // `first` on, to `to`.
  uint64_t changed_rows() const { return changed_.size(); }
  void CopyChanged(uint64_t first, uint64_t count, char* to) const;

  std::vector<Slot> slots() const override;
  SliceHash slice_hash() const override { return SliceHash::kMix; }
  absl::StatusOr<std::unique_ptr<RowSource>> AllRows() const override;
  absl::StatusOr<std::unique_ptr<RowSource>> RowsOf(
      absl::Span<const int64_t> ids) const override;
  // Restores of it are not measured.
  LiveTable* Live(absl::Span<const std::string>) override { return nullptr; }
  RowTracker* tracker() override { return &tracker_; }

 private:
  class Rows;
  TrackedTable(uint64_t rows, Pages ids, Pages embedding, Pages adagrad);

  const uint64_t rows_;
  const Pages ids_;
  const Pages embedding_;
  const Pages adagrad_;
  RowTracker tracker_;
  std::vector<int64_t> changed_;
};

// The table, and tensors of about as many bytes as change of it in a step.
class StallModel {
 public:
  static absl::StatusOr<std::unique_ptr<StallModel>> Make(uint64_t rows,
                                                          uint64_t seed);

  // Changes what a save then has to copy.
  void Train(uint64_t seed);
  uint64_t bytes_to_copy() const;
  const TrackedTable& table() const { return *table_; }
  Memory tensors() const { return tensors_.memory(); }
  ModelState* state() { return &state_; }

 private:
  StallModel(std::unique_ptr<TrackedTable> table, Pages tensors);

  const std::unique_ptr<TrackedTable> table_;
  const Pages tensors_;
  ModelState state_;
};

// Threads that compute, as those of a trainer do, until they are destroyed.
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
