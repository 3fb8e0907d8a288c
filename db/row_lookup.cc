// One row of a run: a backward seek in its ids, and one read for each slot.
#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "ckptdb/db/run_cursor.h"
#include "ckptdb/db/step_reader_impl.h"
#include "ckptdb/schema/status.h"

namespace ckptdb::internal {
namespace {

// Where `position` stands in the page of ids; rows() when it does not.
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

}  // namespace

absl::StatusOr<RowValues> LookupRow(const StepReader::Impl& step,
                                    const RankItem& part, int64_t id) {
  ReadOptions options;
  options.readahead_bytes = 0;
  const Item& item = *part.item;
  const RowPosition position{SliceOf(id, item.slice_hash),
                             static_cast<uint64_t>(id)};
  StreamCursor ids(step, part, kIdSlot, SliceRange(), options);
  ids.SeekToRow(position);
  CKPTDB_ASSIGN_OR_RETURN(const bool found, ids.Load());
  const size_t index = found ? IndexOf(ids, position, item.slice_hash) : 0;
  if (!found || index == ids.rows()) {
    return absl::NotFoundError(
        absl::StrCat(PlaceOf(step.record(), part), " has no row of id ", id));
  }
  RowValues row;
  for (size_t slot = 0; slot < item.slots.size(); ++slot) {
    StreamCursor values(step, part, static_cast<uint16_t>(slot + 1),
                        SliceRange(), options);
    CKPTDB_RETURN_IF_ERROR(values.Follow(ids));
    const uint64_t row_bytes = item.slots[slot].row_bytes();
    row.slots.emplace_back(values.raw().substr(index * row_bytes, row_bytes));
  }
  return row;
}

}  // namespace ckptdb::internal
