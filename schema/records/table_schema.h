// SPDX-License-Identifier: Apache-2.0
// Decides whether the changes of a table can be stored on top of an older step.
#ifndef CKPTDB_SCHEMA_RECORDS_TABLE_SCHEMA_H_
#define CKPTDB_SCHEMA_RECORDS_TABLE_SCHEMA_H_

#include <string>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "schema/types.h"

namespace ckptdb::internal {

// Returns whether runs with these slots and this hash can be merged with those
// of `item`: both have the same slots in the same order, and the same hash.
bool SameSchema(const Item& item, absl::Span<const Slot> slots,
                SliceHash slice_hash);

// Returns why a table must be saved in full although its changes are known;
// empty if they can be saved on top of the parent. Managers and stagers both
// call this, so that they agree. `parent_tables` holds the tables of all ranks
// of the parent, sorted by name, as in TicketRecord::parent_tables.
std::string WhyFull(const StepRecord::Rank& parent_tables,
                    absl::string_view table, absl::Span<const Slot> slots,
                    SliceHash slice_hash);

}  // namespace ckptdb::internal

#endif  // CKPTDB_SCHEMA_RECORDS_TABLE_SCHEMA_H_
