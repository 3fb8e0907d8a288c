// SPDX-License-Identifier: Apache-2.0
// The catalogs of a remote, each put after the one before; internal to remote/.
#ifndef CKPTDB_REMOTE_SYNC_CATALOG_LOG_H_
#define CKPTDB_REMOTE_SYNC_CATALOG_LOG_H_

#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "remote/object_store.h"
#include "schema/records/remote.h"

namespace ckptdb::internal {

// Reads a whole object of a known size. Returns NotFound without it.
absl::StatusOr<std::string> GetObject(ObjectStore* store, absl::string_view key,
                                      uint64_t bytes);

// Returns the key of the newest catalog, by one request; empty without one.
absl::StatusOr<std::string> NewestCatalogKey(ObjectStore* store);

// Returns the newest catalog, or nothing if the remote has none.
absl::StatusOr<std::optional<RemoteCatalog>> NewestCatalog(ObjectStore* store);

// Whether this process has committed a catalog itself, or only read it.
enum class Base { kRead, kCommitted };

// Puts `next`, whose number and token it sets, as the catalog after `before`,
// or as the first one if that is null. On OK it is committed: every catalog
// that is put later comes after it.
//
// Returns Aborted if another catalog was put after `before`, and Unavailable
// if that is not known.
absl::Status AppendCatalog(ObjectStore* store, const RemoteCatalog* before,
                           Base base, RemoteCatalog* next);

}  // namespace ckptdb::internal

#endif  // CKPTDB_REMOTE_SYNC_CATALOG_LOG_H_
