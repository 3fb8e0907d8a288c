// SPDX-License-Identifier: Apache-2.0
// Sorts references to the rows of a table into the order of its run; internal
// to db/.
#ifndef CKPTDB_DB_STAGE_ROW_ORDER_H_
#define CKPTDB_DB_STAGE_ROW_ORDER_H_

#include <array>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "db/base/large_array.h"
#include "db/base/own_rows.h"
#include "db/state.h"
#include "schema/bytes/keys.h"
#include "schema/types.h"

namespace ckptdb::internal {

struct RowPart;  // consecutive rows of a block

// Refers to a row by its id and its place in the source.
struct RowRef {
  uint64_t id;
  uint32_t block;
  uint32_t row;
};

// Takes 16 bytes for each row: one counting sort by groups of slices, then each
// group is sorted when it is first needed, which takes as many bytes again for
// the rows of that group. Thread-safe once built.
class RowOrder {
 public:
  // Reads the ids of `table.rows` twice, on `threads` threads. Keeps the ids
  // and values that its blocks point to, but not `table` nor the source itself.
  // Returns InvalidArgument for invalid blocks and for an id that is not in
  // `own`.
  static absl::StatusOr<std::unique_ptr<RowOrder>> Build(
      const RankState::Table& table, const OwnRows& own, int threads);

  uint64_t rows() const { return rows_; }

  // Returns the rows [begin, end) of the run, or InvalidArgument with a
  // duplicate id.
  absl::StatusOr<absl::Span<const RowRef>> Sorted(uint64_t begin, uint64_t end);

  RowPosition PositionOf(const RowRef& ref) const {
    return {SliceOf(static_cast<int64_t>(ref.id), slice_hash_), ref.id};
  }

  // Returns the blocks that RowRefs refer to.
  absl::Span<const RowBlock> blocks() const { return blocks_; }

 private:
  static constexpr uint32_t kGroups = 256;
  static constexpr uint32_t kGroupSlices = kSlices / kGroups;
  // A group larger than rows / kMinGroups + kSlices is sorted in place, to
  // bound the memory of SortBySlice.
  static constexpr uint64_t kMinGroups = 64;
  using GroupCounts = std::array<uint64_t, kGroups>;

  RowOrder(std::string table, SliceHash slice_hash)
      : table_(std::move(table)), slice_hash_(slice_hash) {}

  absl::Status LoadBlocks(const RowSource* source,
                          const std::vector<Slot>& slots);
  absl::Status Distribute(const OwnRows& own, int threads);
  template <typename Visit>
  void ForRows(const std::vector<RowPart>& parts, const Visit& visit) const;
  // Counts these rows by group. Returns InvalidArgument for a row that belongs
  // to another rank.
  absl::Status CountGroups(const OwnRows& own,
                           const std::vector<RowPart>& parts,
                           GroupCounts* counts) const;
  // Writes these rows to refs_. Advances `next`, the position of the next row
  // of each group.
  void PutInGroups(const std::vector<RowPart>& parts, GroupCounts* next);
  absl::Status SortAll(const OwnRows& own);
  // Returns the error of the first row that belongs to another rank.
  absl::Status CheckParts(const OwnRows& own,
                          const std::vector<RowPart>& parts) const;
  absl::Status SortGroup(uint32_t group);
  void SortByPosition(RowRef* begin, RowRef* end) const;
  absl::Status SortBySlice(RowRef* begin, RowRef* end) const;
  absl::Status CheckDuplicates(const RowRef* begin, const RowRef* end) const;

  const std::string table_;  // its name, for errors
  const SliceHash slice_hash_;
  std::vector<RowBlock> blocks_;
  uint64_t rows_ = 0;
  // Not a vector, whose constructor would touch the memory before the threads
  // that fill it.
  LargeArray<RowRef> refs_;
  bool sorted_ = false;  // all rows are sorted; otherwise each group is
  std::array<uint64_t, kGroups + 1> group_begin_{};
  std::array<std::once_flag, kGroups> group_once_;
  std::array<absl::Status, kGroups> group_status_;
};

}  // namespace ckptdb::internal

#endif  // CKPTDB_DB_STAGE_ROW_ORDER_H_
