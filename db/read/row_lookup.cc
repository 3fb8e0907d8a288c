// SPDX-License-Identifier: Apache-2.0
// Looks up one row: seeks in the ids of each run, newest first, and then reads
// once for each slot.
#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "db/read/run_cursor.h"
#include "db/read/step_reader_impl.h"
#include "db/read/table_runs.h"
#include "schema/bytes/keys.h"
#include "schema/status.h"

namespace ckptdb::internal {
namespace {

ReadOptions OneRead() {
  ReadOptions options;
  options.readahead_bytes = 0;
  return options;
}

// Returns the index of `position` in the page of ids, or rows() if it is not
// there.
size_t IndexOf(const StreamCursor& ids, const RowPosition& position,
               SliceHash hash) {
  size_t low = 0;
  size_t high = ids.rows();
  const auto at = [&](size_t i) {
    int64_t id = 0;
    std::memcpy(&id, ids.raw().data() + i * sizeof(id), sizeof(id));
    return RowPosition{SliceOf(id, hash), static_cast<uint64_t>(id)};
  };
  while (low < high) {
    const size_t middle = low + (high - low) / 2;
    if (at(middle) < position) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low < ids.rows() && at(low) == position ? low : ids.rows();
}

// Returns whether a run, or its erased ids, contain the id; *ids then holds the
// page with it, and the index is set.
absl::StatusOr<bool> Find(const RankItem& run, const RowPosition& position,
                          StreamCursor* ids, size_t* index) {
  ids->SeekToRow(position);
  CKPTDB_ASSIGN_OR_RETURN(const bool found, ids->Load());
  if (!found) return false;
  *index = IndexOf(*ids, position, run.item->slice_hash);
  return *index < ids->rows();
}

// Returns the row in this run, or NotFound.
absl::StatusOr<std::vector<std::string>> LookupIn(const StepReader::Impl& step,
                                                  const RankItem& run,
                                                  const RowPosition& position) {
  StreamCursor ids(step, run, kIdSlot, SliceRange(), OneRead());
  size_t index = 0;
  CKPTDB_ASSIGN_OR_RETURN(const bool found, Find(run, position, &ids, &index));
  if (!found) return absl::NotFoundError("not in this run");
  std::vector<std::string> row;
  const Item& item = *run.item;
  for (size_t slot = 0; slot < item.slots.size(); ++slot) {
    StreamCursor values(step, run, static_cast<uint16_t>(slot + 1),
                        SliceRange(), OneRead());
    CKPTDB_RETURN_IF_ERROR(values.Follow(ids));
    const uint64_t row_bytes = item.slots[slot].row_bytes();
    row.emplace_back(values.raw().substr(index * row_bytes, row_bytes));
  }
  return row;
}

// Returns whether a run erases the id. Runs without erased ids are not read.
absl::StatusOr<bool> ErasedIn(const StepReader::Impl& step, const RankItem& run,
                              const RowPosition& position) {
  if (run.item->erased_rows == 0) return false;
  StreamCursor ids(step, run, kErasedSlot, SliceRange(), OneRead());
  size_t index = 0;
  return Find(run, position, &ids, &index);
}

}  // namespace

absl::StatusOr<std::vector<std::string>> LookupRow(const StepReader::Impl& step,
                                                   absl::string_view table,
                                                   int64_t id) {
  CKPTDB_ASSIGN_OR_RETURN(const std::vector<RankItem> runs,
                          RunsOf(step, table));
  const RowPosition position{SliceOf(id, runs[0].item->slice_hash),
                             static_cast<uint64_t>(id)};
  const StepRecord* erased_in = nullptr;
  for (const RankItem& run : runs) {
    // A rank with other slices cannot have the row.
    if (!run.slices().Contains(position.slice)) continue;
    // A row that moved to another rank was upserted there and erased here, so
    // the upsert wins.
    if (erased_in != nullptr && erased_in != run.step) break;
    absl::StatusOr<std::vector<std::string>> row =
        LookupIn(step, run, position);
    if (!absl::IsNotFound(row.status())) return row;
    CKPTDB_ASSIGN_OR_RETURN(const bool erased, ErasedIn(step, run, position));
    if (erased) erased_in = run.step;
  }
  return absl::NotFoundError(absl::StrCat("step ", step.record().version.step,
                                          " table \"", table,
                                          "\" has no row with id ", id));
}

}  // namespace ckptdb::internal
