// SPDX-License-Identifier: Apache-2.0
// The model that one rank of the soak trains: its share of each step's content.
#ifndef CKPTDB_BENCH_SOAK_RANK_MODEL_H_
#define CKPTDB_BENCH_SOAK_RANK_MODEL_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "bench/soak/content.h"
#include "manager/model_state.h"

namespace ckptdb::soak {

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
  // The position follows from the step, so the parts of another world size are
  // not needed.
  class Position : public IoState {
   public:
    std::string text;
    absl::StatusOr<std::string> Dump() override { return text; }
    absl::Status Load(absl::string_view bytes) override;
    absl::Status Redistribute(absl::Span<const std::string> parts) override;
  };

  bool Owns(int64_t id) const {
    return own_.Contains(SliceOf(id, SliceHash::kMix));
  }
  void SetTensors(int64_t step);

  const Content content_;
  const uint32_t rank_;
  const SliceRange own_;
  const int64_t first_;  // of kDenseTensor
  Rows rows_;
  RowTable table_{&rows_};
  std::vector<float> dense_;
  std::vector<int64_t> frozen_;
  int64_t frozen_change_ = -1;  // that frozen_ was trained to
  Position reader_;
  ModelState state_;
};

}  // namespace ckptdb::soak

#endif  // CKPTDB_BENCH_SOAK_RANK_MODEL_H_
