// SPDX-License-Identifier: Apache-2.0
// The text of the file SHIPPED; internal to remote/.
#ifndef CKPTDB_REMOTE_SYNC_SHIP_NOTE_H_
#define CKPTDB_REMOTE_SYNC_SHIP_NOTE_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "remote/remote_store.h"

namespace ckptdb::internal {

// A line for each field: its name, a space, and its value.
std::string FormatShipNote(const ShipNote& note);

// Unknown lines, of later versions, are ignored. Returns DataLoss for a text
// without a URL, or with an invalid number.
absl::StatusOr<ShipNote> ParseShipNote(absl::string_view text);

}  // namespace ckptdb::internal

#endif  // CKPTDB_REMOTE_SYNC_SHIP_NOTE_H_
