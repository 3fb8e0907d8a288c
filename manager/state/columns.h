// SPDX-License-Identifier: Apache-2.0
// The memory of a ColumnTable: an index, and chunks that never move; internal
// to manager/.
#ifndef CKPTDB_MANAGER_STATE_COLUMNS_H_
#define CKPTDB_MANAGER_STATE_COLUMNS_H_

#include <array>
#include <bit>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "db/base/large_array.h"
#include "db/state.h"
#include "manager/tables.h"

namespace ckptdb {

class ColumnTable::Columns {
 public:
  static constexpr uint64_t kRows = ColumnTable::kRowsPerChunk;
  static constexpr uint64_t kWordBits = 64;
  static constexpr uint64_t kWords = kRows / kWordBits;
  // Ids whose places in the index are prefetched, so that lookups do not wait
  // for memory one after the other.
  static constexpr size_t kAhead = 16;

  // A bit for each row of a chunk.
  using RowBits = std::array<uint64_t, kWords>;

  // Calls visit(row) for each bit that is set, in ascending order.
  template <typename Visit>
  static void ForBits(const RowBits& bits, const Visit& visit) {
    for (uint64_t word = 0; word < kWords; ++word) {
      for (uint64_t rest = bits[word]; rest != 0; rest &= rest - 1) {
        visit(word * kWordBits + static_cast<uint64_t>(std::countr_zero(rest)));
      }
    }
  }

 private:
  // Rows are in chunks so that a table grows without moving them: a trainer may
  // keep addresses of rows, and a restore writes to rows while others are
  // added.
  struct Chunk {
    internal::LargeArray<int64_t>
        ids;  // the id of a free row is the next free row
    std::vector<internal::LargeArray<char>> values;  // by slot
    RowBits live = {};
  };

 public:
  // A row in memory, which stays there until it is erased or the table cleared.
  class Place {
   public:
    Place(const Chunk* chunk, uint64_t row, bool is_new)
        : chunk_(chunk), row_(row), is_new_(is_new) {}

    uint64_t row() const { return row_; }
    bool is_new() const { return is_new_; }
    char* ValueOf(size_t slot, uint64_t row_bytes) const {
      return chunk_->values[slot].get() + row_ % kRows * row_bytes;
    }

   private:
    const Chunk* chunk_;
    uint64_t row_ : 63;
    uint64_t is_new_ : 1;
  };

  explicit Columns(const std::vector<Slot>& slots) : values_(slots.size()) {
    for (const Slot& slot : slots) row_bytes_.push_back(slot.row_bytes());
  }

  uint64_t size() const { return index_.size(); }
  const std::vector<char*>* chunks(size_t slot) const { return &values_[slot]; }
  char* ValueOf(size_t slot, uint64_t row) const {
    return values_[slot][row / kRows] + row % kRows * row_bytes_[slot];
  }
  size_t slot_count() const { return row_bytes_.size(); }
  uint64_t row_bytes(size_t slot) const { return row_bytes_[slot]; }
  int64_t IdOf(uint64_t row) const {
    return chunks_[row / kRows]->ids[row % kRows];
  }

  std::optional<uint64_t> Find(int64_t id) const {
    const auto found = index_.find(id);
    if (found == index_.end()) return std::nullopt;
    return found->second;
  }
  void Prefetch(int64_t id) const { index_.prefetch(id); }
  bool IsRow(uint64_t row) const {
    return row < chunks_.size() * kRows &&
           (chunks_[row / kRows]->live[row % kRows / kWordBits] >>
                row % kWordBits &
            1) != 0;
  }

  // Returns the row of the id, which is added if it is missing, with zeros.
  absl::StatusOr<Inserted> Insert(int64_t id);
  // Appends the rows of the ids to *places. Rows that are added have arbitrary
  // values. After an error or an exception, *places has the rows of the ids
  // before the one that failed.
  absl::Status Reserve(absl::Span<const int64_t> ids,
                       std::vector<Place>* places);
  bool Erase(int64_t id);
  void Clear();

  size_t chunk_count() const { return chunks_.size(); }
  const RowBits& live(size_t chunk) const { return chunks_[chunk]->live; }
  const int64_t* ids(size_t chunk) const { return chunks_[chunk]->ids.get(); }
  std::vector<RowBlock::SlotValues> slots(size_t chunk) const;

 private:
  absl::StatusOr<Inserted> Reserve(int64_t id);
  absl::Status MakeRoom();
  uint64_t TakeRow();

  static constexpr uint64_t kNoRow = ~uint64_t{0};

  std::vector<uint64_t> row_bytes_;  // by slot
  absl::flat_hash_map<int64_t, uint64_t> index_;
  std::vector<std::unique_ptr<Chunk>> chunks_;
  std::vector<std::vector<char*>> values_;  // by slot, then by chunk
  uint64_t next_row_ = 0;
  uint64_t free_ = kNoRow;  // the first of a list
};

}  // namespace ckptdb

#endif  // CKPTDB_MANAGER_STATE_COLUMNS_H_
