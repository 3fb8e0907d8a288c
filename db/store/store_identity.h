// SPDX-License-Identifier: Apache-2.0
// Gives a copied store an identity of its own; internal to db/.
#ifndef CKPTDB_DB_STORE_STORE_IDENTITY_H_
#define CKPTDB_DB_STORE_STORE_IDENTITY_H_

#include <string>

#include "absl/status/status.h"

namespace ckptdb::internal {

// Applies the store's waiting posts, then gives it a new uuid, in all its
// records in one synced batch. Lineage digests cover the uuid, so they are
// computed again. Nobody may have the store open.
absl::Status ChangeStoreIdentity(const std::string& path);

}  // namespace ckptdb::internal

#endif  // CKPTDB_DB_STORE_STORE_IDENTITY_H_
