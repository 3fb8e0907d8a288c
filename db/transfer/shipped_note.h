// SPDX-License-Identifier: Apache-2.0
// The file SHIPPED of a store's folder; internal to db/ and remote/.
#ifndef CKPTDB_DB_TRANSFER_SHIPPED_NOTE_H_
#define CKPTDB_DB_TRANSFER_SHIPPED_NOTE_H_

#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace ckptdb::internal {

// Replaces the file atomically, but not durably, because the next push writes
// it again. Only people and `ckptdb ls` read it.
absl::Status WriteShippedNote(absl::string_view store, absl::string_view bytes);

// Returns nothing for a URL or without the file, and an error if it is not a
// file.
absl::StatusOr<std::optional<std::string>> ReadShippedNote(
    absl::string_view store);

}  // namespace ckptdb::internal

#endif  // CKPTDB_DB_TRANSFER_SHIPPED_NOTE_H_
