// SPDX-License-Identifier: Apache-2.0
#include "bench/soak/rank_model.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "schema/status.h"
#include "schema/types.h"

namespace ckptdb::soak {
namespace {

// A copy of some rows, as one block.
class CopiedRows : public RowSource {
 public:
  CopiedRows(std::vector<int64_t> ids, std::vector<Row> rows)
      : ids_(std::move(ids)), rows_(std::move(rows)) {
    if (rows_.empty()) return;
    slots_ = {{rows_.front().embedding.data(), sizeof(Row)},
              {&rows_.front().adagrad_sum, sizeof(Row)}};
  }
  uint64_t block_count() const override { return rows_.empty() ? 0 : 1; }
  absl::StatusOr<RowBlock> Block(uint64_t) const override {
    return RowBlock{ids_, slots_};
  }

 private:
  const std::vector<int64_t> ids_;
  const std::vector<Row> rows_;
  std::vector<RowBlock::SlotValues> slots_;
};

SliceRange OwnSlices(uint32_t rank, uint32_t world_size) {
  const std::vector<uint32_t> bounds = EvenSliceBounds(world_size);
  return {bounds[rank], bounds[rank + 1]};
}

bool Owns(const SliceRange& own, int64_t id) {
  return own.Contains(SliceOf(id, SliceHash::kMix));
}

int64_t FirstElement(uint32_t rank, uint32_t world_size) {
  return kDenseElements * rank / world_size;
}

}  // namespace

void TrainedTable::Apply(const RowChange& change, const SliceRange& own) {
  std::vector<int64_t> erased;
  for (const int64_t id : change.erased) {
    if (Owns(own, id) && held_.rows().erase(id) > 0) erased.push_back(id);
  }
  std::vector<int64_t> upserted;
  for (const auto& [id, row] : change.upserted) {
    if (!Owns(own, id)) continue;
    held_.rows()[id] = row;
    upserted.push_back(id);
  }
  tracker_.MarkErased(erased);
  tracker_.MarkUpserted(upserted);
}

std::vector<Slot> TrainedTable::slots() const {
  return {{kEmbeddingSlot, DType::kF32, kEmbeddingElements},
          {kSumSlot, DType::kF32, 1}};
}

absl::StatusOr<std::unique_ptr<RowSource>> TrainedTable::AllRows() const {
  std::vector<int64_t> ids;
  ids.reserve(rows().size());
  for (const auto& [id, row] : rows()) ids.push_back(id);
  return RowsOf(ids);
}

absl::StatusOr<std::unique_ptr<RowSource>> TrainedTable::RowsOf(
    absl::Span<const int64_t> ids) const {
  std::vector<Row> copies;
  copies.reserve(ids.size());
  for (const int64_t id : ids) {
    const auto found = rows().find(id);
    if (found == rows().end()) {
      return absl::InternalError(
          absl::StrCat("row ", id, " is marked and not in the table"));
    }
    copies.push_back(found->second);
  }
  return std::make_unique<CopiedRows>(
      std::vector<int64_t>(ids.begin(), ids.end()), std::move(copies));
}

LiveTable* TrainedTable::Live(absl::Span<const std::string> slots) {
  held_.SetSlots(slots);
  return &held_;
}

absl::Status Text::Load(absl::string_view bytes) {
  text = std::string(bytes);
  return absl::OkStatus();
}

absl::Status Text::Redistribute(absl::Span<const std::string> parts) {
  text = absl::StrJoin(parts, "\n");
  return absl::OkStatus();
}

RankModel::RankModel(const Content& content, uint32_t rank, uint32_t world_size)
    : content_(content),
      rank_(rank),
      own_(OwnSlices(rank, world_size)),
      first_(FirstElement(rank, world_size)),
      dense_(static_cast<size_t>(FirstElement(rank + 1, world_size) - first_)),
      frozen_(kFrozenElements) {
  RowChange all;
  all.upserted = content_.RowsAt(0);
  table_.Apply(all, own_);
  SetTensors(0);
}

absl::Status RankModel::Register() {
  TensorState dense =
      TensorState::Of(dense_.data(), {static_cast<int64_t>(dense_.size())});
  dense.global_shape = {kDenseElements};
  dense.offset = {first_};
  CKPTDB_RETURN_IF_ERROR(state_.AddTensor(kDenseTensor, std::move(dense)));
  CKPTDB_RETURN_IF_ERROR(state_.AddTensor(
      kFrozenTensor, TensorState::Of(frozen_.data(), {kFrozenElements})));
  CKPTDB_RETURN_IF_ERROR(
      state_.AddTable(kTable, &table_, TableSharding::BySlices()));
  return state_.AddIoState(kReader, &reader_);
}

void RankModel::SetTensors(int64_t step) {
  const std::vector<float> dense = content_.Dense(step);
  std::copy_n(dense.begin() + first_, dense_.size(), dense_.begin());
  if (frozen_change_ != step / kFrozenSteps) {
    frozen_change_ = step / kFrozenSteps;
    const std::vector<int64_t> frozen = content_.Frozen(step);
    std::copy(frozen.begin(), frozen.end(), frozen_.begin());
  }
  reader_.text = content_.Position(step, rank_);
}

void RankModel::Train(int64_t step) {
  table_.Apply(content_.ChangesOf(step), own_);
  SetTensors(step);
}

absl::Status RankModel::Check(int64_t step, bool resized) const {
  const std::string where =
      absl::StrCat("step ", step, " restored by rank ", rank_);
  Rows expected = content_.RowsAt(step);
  std::erase_if(expected,
                [&](const auto& row) { return !Owns(own_, row.first); });
  CKPTDB_RETURN_IF_ERROR(CompareRows(table_.rows(), expected, where));
  const std::vector<float> dense = content_.Dense(step);
  const bool same =
      std::equal(dense_.begin(), dense_.end(), dense.begin() + first_) &&
      frozen_ == content_.Frozen(step) &&
      (resized || reader_.text == content_.Position(step, rank_));
  if (same) return absl::OkStatus();
  return absl::DataLossError(where + ": tensors or io state are others");
}

}  // namespace ckptdb::soak
