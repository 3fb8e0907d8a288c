// SPDX-License-Identifier: Apache-2.0
// Questions to the parts of a store; internal to the library.
#ifndef CKPTDB_SCHEMA_RECORDS_STORE_PARTS_H_
#define CKPTDB_SCHEMA_RECORDS_STORE_PARTS_H_

#include <string>

#include "absl/strings/string_view.h"
#include "schema/records/records.h"
#include "schema/types.h"

namespace ckptdb::internal {

// Returns whether the parts include a table, at least some of it, or a tensor
// or a blob.
bool HasItem(const StoreParts& parts, Item::Kind kind, absl::string_view name);

// Returns whether a table's slot is one of the parts, if the table is.
bool HasSlot(const StoreParts& parts, absl::string_view slot);

// Returns `tables "user", slots "embedding", slices 0-127`.
std::string Describe(const StoreParts& parts);

}  // namespace ckptdb::internal

#endif  // CKPTDB_SCHEMA_RECORDS_STORE_PARTS_H_
