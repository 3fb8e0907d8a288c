// SPDX-License-Identifier: Apache-2.0
#include "schema/records/table_schema.h"

#include <algorithm>

namespace ckptdb::internal {

bool SameSchema(const Item& item, absl::Span<const Slot> slots,
                SliceHash slice_hash) {
  return item.slice_hash == slice_hash && SameSlots(item.slots, slots);
}

std::string WhyFull(const StepRecord::Rank& parent_tables,
                    absl::string_view table, absl::Span<const Slot> slots,
                    SliceHash slice_hash) {
  const auto old =
      std::lower_bound(parent_tables.items.begin(), parent_tables.items.end(),
                       table, [](const Item& item, absl::string_view name) {
                         return absl::string_view(item.name) < name;
                       });
  if (old == parent_tables.items.end() || old->name != table) {
    return "the parent has no such table";
  }
  if (SameSchema(*old, slots, slice_hash)) return "";
  return "its schema (slots or slice hash) differs from the parent's";
}

}  // namespace ckptdb::internal
