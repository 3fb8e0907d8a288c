// SPDX-License-Identifier: Apache-2.0
#include <utility>

#include "db/base/state_items.h"
#include "db/state.h"

namespace ckptdb {

RankState::RankState() = default;
RankState::~RankState() = default;
RankState::RankState(const RankState&) = default;
RankState& RankState::operator=(const RankState&) = default;
RankState::RankState(RankState&&) noexcept = default;
RankState& RankState::operator=(RankState&&) noexcept = default;

void RankState::AddTensor(std::string name, TensorView view, Codec codec) {
  tensors_.push_back({std::move(name), std::move(view), codec});
}

void RankState::AddTable(std::string name, std::vector<Slot> slots,
                         const RowSource* rows, SliceHash slice_hash,
                         TableSharding sharding) {
  Table table{std::move(name), std::move(slots), rows, slice_hash};
  table.sharding = std::move(sharding);
  tables_.push_back(std::move(table));
}
void RankState::AddTable(Table table) { tables_.push_back(std::move(table)); }

void RankState::AddBlob(std::string name, absl::string_view bytes,
                        Codec codec) {
  blobs_.push_back({std::move(name), bytes, codec});
}

const std::vector<internal::StateTensor>& RankState::tensors() const {
  return tensors_;
}
const std::vector<internal::StateBlob>& RankState::blobs() const {
  return blobs_;
}

}  // namespace ckptdb
