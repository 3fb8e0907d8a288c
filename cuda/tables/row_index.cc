// SPDX-License-Identifier: Apache-2.0
#include "cuda/tables/row_index.h"

#include "absl/strings/str_cat.h"
#include "schema/status.h"

namespace ckptdb::internal {

// Subtracts as uint64_t, because the difference of two ids may exceed int64_t.
std::optional<uint32_t> RowOfId(const TableRows& table, int64_t id) {
  if (id < table.first_id) return std::nullopt;
  const uint64_t distance =
      static_cast<uint64_t>(id) - static_cast<uint64_t>(table.first_id);
  const auto step = static_cast<uint64_t>(table.id_step);
  if (distance % step != 0 || distance / step >= table.rows) {
    return std::nullopt;
  }
  return static_cast<uint32_t>(distance / step);
}

absl::Status CheckHasPlace(const TableRows& table, int64_t id) {
  if (table.ids == nullptr) {
    if (RowOfId(table, id).has_value()) return absl::OkStatus();
    return absl::OutOfRangeError(absl::StrCat(
        "id ", id,
        " of the step does not belong to the table in device memory, whose ",
        table.rows, " rows have ids from ", table.first_id, " on with id_step ",
        table.id_step));
  }
  if (id != table.free_id) return absl::OkStatus();
  return absl::OutOfRangeError(absl::StrCat(
      "the step contains id ", id,
      ", which is DeviceTable::Options::free_id of the table; choose a free_id "
      "that no row has"));
}

void RowIndex::Clear() {
  rows_.clear();
  free_.clear();
  next_ = 0;
}

absl::Status RowIndex::Load(absl::Span<const int64_t> ids) {
  Clear();
  next_ = ids.size();
  for (uint64_t row = ids.size(); row-- > 0;) {
    if (ids[row] == table_.free_id) {
      free_.push_back(static_cast<uint32_t>(row));
      continue;
    }
    const auto [other, added] =
        rows_.try_emplace(ids[row], static_cast<uint32_t>(row));
    if (added) continue;
    return absl::FailedPreconditionError(
        absl::StrCat("rows ", row, " and ", other->second,
                     " of the table in device memory both have id ", ids[row]));
  }
  return absl::OkStatus();
}

absl::StatusOr<RowIndex::Found> RowIndex::Insert(int64_t id) {
  CKPTDB_RETURN_IF_ERROR(CheckHasPlace(table_, id));
  if (table_.ids == nullptr) return Found{*RowOfId(table_, id), false};
  const auto found = rows_.find(id);
  if (found != rows_.end()) return Found{found->second, false};
  if (free_.empty() && next_ == table_.rows) {
    return absl::ResourceExhaustedError(
        absl::StrCat("the table in device memory has ", table_.rows,
                     " rows, and the step has more; make the table larger"));
  }
  uint32_t row = 0;
  if (free_.empty()) {
    row = static_cast<uint32_t>(next_++);
  } else {
    row = free_.back();
    free_.pop_back();
  }
  rows_.emplace(id, row);
  return Found{row, true};
}

std::optional<uint32_t> RowIndex::Erase(int64_t id) {
  if (table_.ids == nullptr) return RowOfId(table_, id);
  const auto found = rows_.find(id);
  if (found == rows_.end()) return std::nullopt;
  const uint32_t row = found->second;
  rows_.erase(found);
  return row;
}

void RowIndex::Release(absl::Span<const uint32_t> rows) {
  if (table_.ids == nullptr) return;
  free_.insert(free_.end(), rows.begin(), rows.end());
}

}  // namespace ckptdb::internal
