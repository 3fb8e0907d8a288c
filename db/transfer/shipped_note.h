// SPDX-License-Identifier: Apache-2.0
// The file SHIPPED of a store's folder; internal to db/ and remote/.
#ifndef CKPTDB_DB_TRANSFER_SHIPPED_NOTE_H_
#define CKPTDB_DB_TRANSFER_SHIPPED_NOTE_H_

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace ckptdb::internal {

// Replaces the file atomically, but not durably: what it says can be found out
// again. It is only for people and for `ckptdb ls`.
absl::Status WriteShippedNote(absl::string_view store, absl::string_view bytes);

}  // namespace ckptdb::internal

#endif  // CKPTDB_DB_TRANSFER_SHIPPED_NOTE_H_
