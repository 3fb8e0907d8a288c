// SPDX-License-Identifier: Apache-2.0
#include "db/stage/row_order.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "db/base/call_guard.h"
#include "db/base/own_rows.h"
#include "db/base/parallel.h"
#include "db/base/row_block.h"
#include "schema/bytes/annotate.h"
#include "schema/status.h"

namespace ckptdb::internal {

struct RowPart {
  size_t block;
  uint64_t begin;
  uint64_t end;
};
namespace {

absl::Status Bad(absl::string_view table, absl::string_view why) {
  return absl::InvalidArgumentError(
      absl::StrCat("table \"", table, "\": ", why));
}

// Calls `function`, which may call the user's sharding function, and returns an
// exception as an error that names the table.
template <typename Function>
absl::Status CallSharding(absl::string_view table, Function&& function) {
  return CallGuarded(absl::StrCat("table \"", table, "\": its sharding"),
                     std::forward<Function>(function));
}

// Divides the rows evenly among `threads`, even if all are in one block.
std::vector<std::vector<RowPart>> SplitRows(const std::vector<RowBlock>& blocks,
                                            uint64_t rows, size_t threads) {
  std::vector<std::vector<RowPart>> parts(threads);
  const uint64_t share = rows / threads + 1;
  uint64_t seen = 0;
  for (size_t block = 0; block < blocks.size(); ++block) {
    const uint64_t count = blocks[block].ids.size();
    for (uint64_t begin = 0; begin < count;) {
      const uint64_t thread = seen / share;
      const uint64_t room = (thread + 1) * share - seen;
      const uint64_t end = std::min(count, begin + room);
      parts[thread].push_back({block, begin, end});
      seen += end - begin;
      begin = end;
    }
  }
  return parts;
}

// Checks block `number`, and compares its slots with those of *with_rows, the
// first block that has rows, which is set here.
absl::Status CheckBlock(uint64_t number, const RowBlock& block,
                        const std::vector<Slot>& slots,
                        std::optional<RowBlock>* with_rows) {
  CKPTDB_RETURN_IF_ERROR(
      CheckRowBlock(number, block, slots, EncodedSlots::kTaken));
  if (block.ids.empty()) return absl::OkStatus();
  if (!with_rows->has_value()) *with_rows = block;
  return CheckEncodedAlike(**with_rows, number, block);
}

}  // namespace

absl::StatusOr<std::unique_ptr<RowOrder>> RowOrder::Build(
    const RankState::Table& table, const OwnRows& own, int threads) {
  std::unique_ptr<RowOrder> order(new RowOrder(table.name, table.slice_hash));
  CKPTDB_RETURN_IF_ERROR(order->LoadBlocks(table.rows, table.slots));
  CKPTDB_RETURN_IF_ERROR(order->rows() <= kSlices
                             ? order->SortAll(own)
                             : order->Distribute(own, threads));
  return order;
}

// Asks the source for each block once, and checks it. Ids and values are later
// read where the blocks point; the source is not asked again.
absl::Status RowOrder::LoadBlocks(const RowSource* source,
                                  const std::vector<Slot>& slots) {
  if (source == nullptr)
    return Bad(table_, "it has no source of rows; set RankState::Table::rows");
  CKPTDB_ASSIGN_OR_RETURN(const uint64_t count, CountBlocks(*source));
  if (count > kMaxBlocks) {
    return Bad(table_, absl::StrCat("its source of rows has ", count,
                                    " blocks; the limit is ", kMaxBlocks));
  }
  // The caller's source chose the number: a huge one must be an error, not the
  // end of the process.
  if (!CallGuarded("", [&] { blocks_.reserve(count); }).ok()) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "table \"", table_, "\": cannot allocate ", count * sizeof(RowBlock),
        " bytes for the places of ", count, " blocks"));
  }
  std::optional<RowBlock> with_rows;
  for (uint64_t i = 0; i < count; ++i) {
    CKPTDB_ASSIGN_OR_RETURN(RowBlock block, GetBlock(*source, i));
    CKPTDB_RETURN_IF_ERROR(Annotate(CheckBlock(i, block, slots, &with_rows),
                                    absl::StrCat("table \"", table_, "\"")));
    rows_ += block.ids.size();
    blocks_.push_back(block);
  }
  refs_ = AllocateArray<RowRef>(rows_);
  if (refs_ == nullptr) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "table \"", table_, "\": cannot allocate ", rows_ * sizeof(RowRef),
        " bytes for the order of ", rows_, " rows"));
  }
  return absl::OkStatus();
}

// Sorts few rows by comparison, because they are not worth the counters.
absl::Status RowOrder::SortAll(const OwnRows& own) {
  CKPTDB_RETURN_IF_ERROR(CallSharding(table_, [&] {
    return CheckParts(own, SplitRows(blocks_, rows(), 1).front());
  }));
  uint64_t next = 0;
  for (size_t block = 0; block < blocks_.size(); ++block) {
    const absl::Span<const int64_t> ids = blocks_[block].ids;
    for (size_t i = 0; i < ids.size(); ++i) {
      refs_[next++] = {static_cast<uint64_t>(ids[i]),
                       static_cast<uint32_t>(block),
                       static_cast<uint32_t>(blocks_[block].RowAt(i))};
    }
  }
  RowRef* const end = refs_.get() + rows_;
  SortByPosition(refs_.get(), end);
  sorted_ = true;
  return CheckDuplicates(refs_.get(), end);
}

// Checks that sorted rows have no duplicate id.
absl::Status RowOrder::CheckDuplicates(const RowRef* begin,
                                       const RowRef* end) const {
  const RowRef* const duplicate = std::adjacent_find(
      begin, end,
      [](const RowRef& a, const RowRef& b) { return a.id == b.id; });
  if (duplicate == end) return absl::OkStatus();
  return Bad(table_,
             absl::StrCat("duplicate id ", static_cast<int64_t>(duplicate->id),
                          " in blocks ", duplicate->block, " and ",
                          std::next(duplicate)->block));
}

// Calls visit(block, row, id, slice) for each row of these parts.
template <typename Visit>
void RowOrder::ForRows(const std::vector<RowPart>& parts,
                       const Visit& visit) const {
  for (const RowPart& part : parts) {
    const int64_t* ids = blocks_[part.block].ids.data();
    for (uint64_t i = part.begin; i < part.end; ++i) {
      visit(part.block, i, ids[i], SliceOf(ids[i], slice_hash_));
    }
  }
}

// Collects the ids of many blocks, because a block may be a single row.
absl::Status RowOrder::CheckParts(const OwnRows& own,
                                  const std::vector<RowPart>& parts) const {
  constexpr size_t kBatch = 8192;
  std::vector<int64_t> ids;
  std::optional<int64_t> foreign;
  const auto check = [&] {
    if (!foreign.has_value()) foreign = own.FirstForeign(ids);
    ids.clear();
  };
  ForRows(parts, [&](size_t, uint64_t, int64_t id, uint16_t) {
    ids.push_back(id);
    if (ids.size() == kBatch) check();
  });
  check();
  if (!foreign.has_value()) return absl::OkStatus();
  return Bad(table_, own.DescribeForeign(*foreign));
}

// One pass over the ids both counts and checks them, unless a function checks
// many at once.
absl::Status RowOrder::CountGroups(const OwnRows& own,
                                   const std::vector<RowPart>& parts,
                                   GroupCounts* counts) const {
  absl::Status status;
  counts->fill(0);
  const bool by_function = own.by_function();
  status.Update(CallSharding(table_, [&] {
    if (by_function) status = CheckParts(own, parts);
    ForRows(parts, [&](size_t, uint64_t, int64_t id, uint16_t slice) {
      ++(*counts)[slice / kGroupSlices];
      // Counting continues after an error, but the counts are not used.
      if (!by_function && !own.Has(id, slice) && status.ok()) {
        status = Bad(table_, own.DescribeForeign(id));
      }
    });
  }));
  return status;
}

// The threads write to disjoint places, so they need no lock.
void RowOrder::PutInGroups(const std::vector<RowPart>& parts,
                           GroupCounts* next) {
  ForRows(parts, [&](size_t block, uint64_t i, int64_t id, uint16_t slice) {
    refs_[(*next)[slice / kGroupSlices]++] = {
        static_cast<uint64_t>(id), static_cast<uint32_t>(block),
        static_cast<uint32_t>(blocks_[block].RowAt(i))};
  });
}

// A counting sort by group: each thread counts its part of the rows, then
// writes them after those of the threads before it. The processor can write to
// 256 places at once without stalling.
absl::Status RowOrder::Distribute(const OwnRows& own, int threads) {
  constexpr uint64_t kRowsWorthAThread = 65536;
  const auto workers = static_cast<size_t>(
      std::clamp<uint64_t>(rows() / kRowsWorthAThread, 1,
                           static_cast<uint64_t>(std::clamp(threads, 1, 4))));
  const auto parts = SplitRows(blocks_, rows(), workers);
  std::vector<GroupCounts> next(workers);
  CKPTDB_RETURN_IF_ERROR(ParallelFor(
      static_cast<int>(workers), workers, [&](int, uint64_t worker) {
        return CountGroups(own, parts[worker], &next[worker]);
      }));
  uint64_t total = 0;
  for (uint32_t group = 0; group < kGroups; ++group) {
    group_begin_[group] = total;
    for (GroupCounts& counts : next) {
      const uint64_t count = counts[group];
      counts[group] = total;
      total += count;
    }
  }
  group_begin_[kGroups] = total;
  return ParallelFor(static_cast<int>(workers), workers,
                     [&](int, uint64_t worker) {
                       PutInGroups(parts[worker], &next[worker]);
                       return absl::OkStatus();
                     });
}

// An id has one slice, so duplicates are in the same group.
absl::Status RowOrder::SortGroup(uint32_t group) {
  RowRef* const begin = refs_.get() + group_begin_[group];
  RowRef* const end = refs_.get() + group_begin_[group + size_t{1}];
  if (static_cast<uint64_t>(end - begin) > rows_ / kMinGroups + kSlices) {
    SortByPosition(begin, end);
  } else {
    CKPTDB_RETURN_IF_ERROR(SortBySlice(begin, end));
  }
  return CheckDuplicates(begin, end);
}

void RowOrder::SortByPosition(RowRef* begin, RowRef* end) const {
  std::sort(begin, end, [this](const RowRef& a, const RowRef& b) {
    return PositionOf(a) < PositionOf(b);
  });
}

// Sorts the rows of one group: by slice with a counting sort, and then each
// slice by id. The counting sort keeps the order of the source, and so does
// Distribute: the slices of a source with ascending ids need no second sort.
absl::Status RowOrder::SortBySlice(RowRef* begin, RowRef* end) const {
  const auto count = static_cast<uint64_t>(end - begin);
  const LargeArray<RowRef> sorted = AllocateArray<RowRef>(count);
  if (sorted == nullptr) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "table \"", table_, "\": cannot allocate ", count * sizeof(RowRef),
        " bytes to sort ", count, " rows"));
  }
  const auto slice_of = [this](const RowRef& row) {
    return PositionOf(row).slice % kGroupSlices;
  };
  std::array<RowRef*, kGroupSlices + 1> next{};
  std::array<size_t, kGroupSlices> counts{};
  for (const RowRef* row = begin; row != end; ++row) ++counts[slice_of(*row)];
  next[0] = sorted.get();
  for (uint32_t i = 0; i < kGroupSlices; ++i) next[i + 1] = next[i] + counts[i];
  for (const RowRef* row = begin; row != end; ++row) {
    *next[slice_of(*row)]++ = *row;
  }
  const auto by_id = [](const RowRef& a, const RowRef& b) {
    return a.id < b.id;
  };
  RowRef* from = sorted.get();
  for (const size_t rows : counts) {
    RowRef* const to = from + rows;
    if (!std::is_sorted(from, to, by_id)) std::sort(from, to, by_id);
    from = to;
  }
  std::copy_n(sorted.get(), count, begin);
  return absl::OkStatus();
}

// The first thread that needs a group sorts it, so sorting overlaps writing.
absl::StatusOr<absl::Span<const RowRef>> RowOrder::Sorted(uint64_t begin,
                                                          uint64_t end) {
  const auto rows = absl::MakeConstSpan(refs_.get() + begin, end - begin);
  if (sorted_) return rows;
  const auto last =
      std::lower_bound(group_begin_.begin(), group_begin_.end(), end);
  auto group = static_cast<uint32_t>(
      std::upper_bound(group_begin_.begin(), last, begin) -
      group_begin_.begin() - 1);
  for (; group < kGroups && group_begin_[group] < end; ++group) {
    std::call_once(group_once_[group],
                   [&] { group_status_[group] = SortGroup(group); });
    // Every thread that needs the group returns its error.
    CKPTDB_RETURN_IF_ERROR(group_status_[group]);
  }
  return rows;
}

}  // namespace ckptdb::internal
