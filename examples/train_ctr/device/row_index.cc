// SPDX-License-Identifier: Apache-2.0
#include "train_ctr/device/row_index.h"

namespace train_ctr {

std::optional<int32_t> RowIndex::Find(int64_t id) const {
  const auto found = rows_.find(id);
  if (found == rows_.end()) return std::nullopt;
  return found->second;
}

std::optional<RowIndex::Inserted> RowIndex::Insert(int64_t id) {
  if (const std::optional<int32_t> row = Find(id)) {
    return Inserted{*row, false};
  }
  if (free_.empty() && ids_.size() == capacity_) return std::nullopt;
  if (free_.empty()) {
    free_.push_back(static_cast<int32_t>(ids_.size()));
    ids_.push_back(id);
  }
  const int32_t row = free_.back();
  free_.pop_back();
  rows_.emplace(id, row);
  ids_[static_cast<size_t>(row)] = id;
  return Inserted{row, true};
}

int64_t RowIndex::Erase(int32_t row) {
  const int64_t id = ids_[static_cast<size_t>(row)];
  rows_.erase(id);
  free_.push_back(row);
  return id;
}

void RowIndex::Rebuild(const std::vector<int64_t>& ids, int64_t free_id) {
  rows_.clear();
  free_.clear();
  ids_ = ids;
  for (size_t row = ids.size(); row-- > 0;) {
    if (ids[row] == free_id) {
      free_.push_back(static_cast<int32_t>(row));
    } else {
      rows_.emplace(ids[row], static_cast<int32_t>(row));
    }
  }
}

}  // namespace train_ctr
