// SPDX-License-Identifier: Apache-2.0
// The model that one rank of the soak trains: its share of each step's content.
#ifndef CKPTDB_BENCH_SOAK_RANK_MODEL_H_
#define CKPTDB_BENCH_SOAK_RANK_MODEL_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "bench/soak/content.h"
#include "bench/soak/held_rows.h"
#include "manager/model_state.h"

namespace ckptdb::soak {

// The rows of one rank, which marks what it changes.
class TrainedTable : public TableState {
 public:
  // Applies the part of `change` whose ids are in this rank's slices.
  void Apply(const RowChange& change, const SliceRange& own);
  const Rows& rows() const { return held_.rows(); }

  std::vector<Slot> slots() const override;
  SliceHash slice_hash() const override { return SliceHash::kMix; }
  absl::StatusOr<std::unique_ptr<RowSource>> AllRows() const override;
  absl::StatusOr<std::unique_ptr<RowSource>> RowsOf(
      absl::Span<const int64_t> ids) const override;
  LiveTable* Live(absl::Span<const std::string> slots) override;
  RowTracker* tracker() override { return &tracker_; }

 private:
  HeldRows held_;
  RowTracker tracker_;
};

// A text of the content of a step, made by Content or loaded.
class Text : public IoState, public ModelState::Object {
 public:
  std::string text;

  absl::StatusOr<std::string> Dump() override { return text; }
  absl::StatusOr<std::string> Save() override { return text; }
  absl::Status Load(absl::string_view bytes) override;
  // The position follows from the step, so the parts of another world size are
  // not needed.
  absl::Status Redistribute(absl::Span<const std::string> parts) override;
};

class RankModel {
 public:
  RankModel(const Content& content, uint32_t rank, uint32_t world_size);

  // Registers all of it, to be saved and restored. It is called once.
  absl::Status Register();
  ModelState* state() { return &state_; }

  // Goes from `step - 1` to `step`.
  void Train(int64_t step);
  // Returns DataLoss if it is not this rank's part of a step. `resized`: the
  // step was saved by a world of another size.
  absl::Status Check(int64_t step, bool resized) const;

 private:
  void SetTensors(int64_t step);

  const Content content_;
  const uint32_t rank_;
  const SliceRange own_;
  const int64_t first_;  // of kDenseTensor
  TrainedTable table_;
  std::vector<float> dense_;
  std::vector<int64_t> frozen_;
  std::optional<int64_t> frozen_change_;  // that frozen_ was trained to
  Text reader_;
  ModelState state_;
};

}  // namespace ckptdb::soak

#endif  // CKPTDB_BENCH_SOAK_RANK_MODEL_H_
