#include "ckptdb/db/base/row_block.h"

#include "absl/strings/str_cat.h"
#include "ckptdb/schema/dtype.h"

namespace ckptdb::internal {
namespace {

absl::Status Bad(uint64_t number, absl::string_view why) {
  return absl::InvalidArgumentError(
      absl::StrCat("block ", number, " has ", why));
}

}  // namespace

absl::Status CheckRowBlock(uint64_t number, const RowBlock& block,
                           absl::Span<const Slot> slots) {
  const uint64_t rows = block.ids.size();
  if (rows > kMaxBlockRows) {
    return Bad(number,
               absl::StrCat(rows, " rows; the limit is ", kMaxBlockRows));
  }
  if (!block.rows.empty() && block.rows.size() != rows) {
    return Bad(number, absl::StrCat("places of ", block.rows.size(),
                                    " rows, and ", rows, " ids"));
  }
  if (rows == 0) return absl::OkStatus();
  if (block.slots.size() != slots.size()) {
    return Bad(number,
               absl::StrCat(block.slots.size(), " slots, not ", slots.size()));
  }
  for (size_t s = 0; s < slots.size(); ++s) {
    const Slot& slot = slots[s];
    if (block.slots[s].data == nullptr) {
      return Bad(number, absl::StrCat("no data of slot \"", slot.name, "\""));
    }
    const uint64_t stride = block.slots[s].stride_bytes;
    // The only row needs none.
    const bool one = rows == 1 && block.rows.empty();
    if (one || stride >= slot.row_bytes()) continue;
    return Bad(number, absl::StrCat("stride ", stride, " of slot \"", slot.name,
                                    "\", below its ", slot.elements, " x ",
                                    DTypeName(slot.dtype)));
  }
  return absl::OkStatus();
}

}  // namespace ckptdb::internal
