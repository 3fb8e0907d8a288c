// SPDX-License-Identifier: Apache-2.0
#include "manager/state/columns.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "schema/status.h"

namespace ckptdb {

std::vector<RowBlock::SlotValues> ColumnTable::Columns::slots(
    size_t chunk) const {
  std::vector<RowBlock::SlotValues> slots;
  for (size_t s = 0; s < values_.size(); ++s) {
    slots.push_back({values_[s][chunk], row_bytes_[s]});
  }
  return slots;
}

// Allocates a chunk, with the memory of all slots, unless a row is free.
absl::Status ColumnTable::Columns::MakeRoom() {
  if (free_ != kNoRow || next_row_ < chunks_.size() * kRows) {
    return absl::OkStatus();
  }
  auto chunk = std::make_unique<Chunk>();
  chunk->ids = internal::AllocateArray<int64_t>(kRows);
  bool has_memory = chunk->ids != nullptr;
  for (const uint64_t bytes : row_bytes_) {
    chunk->values.push_back(internal::AllocateArray<char>(kRows * bytes));
    has_memory &= chunk->values.back() != nullptr;
  }
  if (!has_memory) {
    return absl::ResourceExhaustedError(
        absl::StrCat("cannot allocate memory for ", kRows, " more rows"));
  }
  // Calls that may throw come first.
  for (std::vector<char*>& values : values_) {
    values.reserve(std::max(values.capacity(), 2 * (values.size() + 1)));
  }
  chunks_.push_back(std::move(chunk));
  for (size_t s = 0; s < values_.size(); ++s) {
    values_[s].push_back(chunks_.back()->values[s].get());
  }
  return absl::OkStatus();
}

uint64_t ColumnTable::Columns::TakeRow() {
  if (free_ == kNoRow) return next_row_++;
  // Free rows are linked through their ids, which takes no memory. The row that
  // was erased last is used first.
  const uint64_t row = free_;
  free_ = static_cast<uint64_t>(IdOf(row));
  return row;
}

// Does not write the values of a row that is added.
absl::StatusOr<ColumnTable::Inserted> ColumnTable::Columns::Reserve(
    int64_t id) {
  CKPTDB_RETURN_IF_ERROR(MakeRoom());
  // Now TakeRow cannot fail, so if the index throws for lack of memory, the
  // table is unchanged.
  const auto [entry, is_new] = index_.try_emplace(id);
  if (is_new) {
    const uint64_t row = TakeRow();
    entry->second = row;
    Chunk& chunk = *chunks_[row / kRows];
    chunk.ids[row % kRows] = id;
    chunk.live[row % kRows / kWordBits] |= uint64_t{1} << row % kWordBits;
  }
  return Inserted{entry->second, is_new};
}

absl::StatusOr<ColumnTable::Inserted> ColumnTable::Columns::Insert(int64_t id) {
  CKPTDB_ASSIGN_OR_RETURN(const Inserted at, Reserve(id));
  // The memory may be an erased row's.
  for (size_t s = 0; at.is_new && s < values_.size(); ++s) {
    std::memset(ValueOf(s, at.row), 0, row_bytes_[s]);
  }
  return at;
}

absl::Status ColumnTable::Columns::Reserve(absl::Span<const int64_t> ids,
                                           std::vector<Place>* places) {
  places->reserve(places->size() + ids.size());
  for (size_t i = 0; i < ids.size(); ++i) {
    if (i + kAhead < ids.size()) Prefetch(ids[i + kAhead]);
    CKPTDB_ASSIGN_OR_RETURN(const Inserted at, Reserve(ids[i]));
    places->emplace_back(chunks_[at.row / kRows].get(), at.row, at.is_new);
  }
  return absl::OkStatus();
}

// Puts the row at the front of the list of free rows. Its values stay until the
// row is used again.
bool ColumnTable::Columns::Erase(int64_t id) {
  const auto found = index_.find(id);
  if (found == index_.end()) return false;
  const uint64_t row = found->second;
  index_.erase(found);
  Chunk& chunk = *chunks_[row / kRows];
  chunk.live[row % kRows / kWordBits] &= ~(uint64_t{1} << row % kWordBits);
  chunk.ids[row % kRows] = static_cast<int64_t>(free_);
  free_ = row;
  return true;
}

void ColumnTable::Columns::Clear() {
  index_.clear();
  chunks_.clear();
  for (std::vector<char*>& values : values_) values.clear();
  next_row_ = 0;
  free_ = kNoRow;
}

}  // namespace ckptdb
