// SPDX-License-Identifier: Apache-2.0
// The rules of the items of a rank record; internal to schema/. The functions
// return DataLoss with the item's name and the value that breaks a rule.
#ifndef CKPTDB_SCHEMA_RECORDS_ITEM_CHECKS_H_
#define CKPTDB_SCHEMA_RECORDS_ITEM_CHECKS_H_

#include <cstddef>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "schema/types.h"

namespace ckptdb::internal {

// Returns the error `item "NAME" WHY`.
absl::Status BadItem(const Item& item, absl::string_view why);

// Checks an item except for its order among others.
absl::Status CheckItem(const Item& item);

// Only a table must have slots.
absl::Status CheckSlotCount(const Item& item, size_t slots);

// Checks that items are in key order: Publish counts entries in that order, and
// items are found by binary search.
absl::Status CheckOrder(const Item& last, const Item& item);

}  // namespace ckptdb::internal

#endif  // CKPTDB_SCHEMA_RECORDS_ITEM_CHECKS_H_
