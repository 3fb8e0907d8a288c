// SPDX-License-Identifier: Apache-2.0
#include "bench/soak/rank_model.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "schema/status.h"
#include "schema/types.h"

namespace ckptdb::soak {
namespace {

SliceRange OwnSlices(uint32_t rank, uint32_t world_size) {
  const std::vector<uint32_t> bounds = EvenSliceBounds(world_size);
  return {bounds[rank], bounds[rank + 1]};
}

int64_t FirstElement(uint32_t rank, uint32_t world_size) {
  return kDenseElements * rank / world_size;
}

}  // namespace

absl::Status RankModel::Position::Load(absl::string_view bytes) {
  text = std::string(bytes);
  return absl::OkStatus();
}

absl::Status RankModel::Position::Redistribute(
    absl::Span<const std::string> /*parts*/) {
  return absl::OkStatus();
}

RankModel::RankModel(const Content& content, uint32_t rank, uint32_t world_size)
    : content_(content),
      rank_(rank),
      own_(OwnSlices(rank, world_size)),
      first_(FirstElement(rank, world_size)),
      rows_(content.RowsAt(0)),
      dense_(static_cast<size_t>(FirstElement(rank + 1, world_size) - first_)),
      frozen_(kFrozenElements) {
  std::erase_if(rows_, [&](const auto& row) { return !Owns(row.first); });
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
  const RowChange change = content_.ChangesOf(step);
  for (const int64_t id : change.erased) {
    if (rows_.erase(id) > 0) table_.MarkErased({id});
  }
  for (const auto& [id, row] : change.upserted) {
    if (!Owns(id)) continue;
    rows_[id] = row;
    table_.MarkUpserted({id});
  }
  SetTensors(step);
}

absl::Status RankModel::Check(int64_t step, bool resized) const {
  const std::string where =
      absl::StrCat("step ", step, " restored by rank ", rank_);
  Rows expected = content_.RowsAt(step);
  std::erase_if(expected, [&](const auto& row) { return !Owns(row.first); });
  CKPTDB_RETURN_IF_ERROR(CompareRows(rows_, expected, where));
  const std::vector<float> dense = content_.Dense(step);
  const bool same =
      std::equal(dense_.begin(), dense_.end(), dense.begin() + first_) &&
      frozen_ == content_.Frozen(step) &&
      (resized || reader_.text == content_.Position(step, rank_));
  if (same) return absl::OkStatus();
  return absl::DataLossError(where + ": tensors or io state are others");
}

}  // namespace ckptdb::soak
