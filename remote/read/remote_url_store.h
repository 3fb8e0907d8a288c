// SPDX-License-Identifier: Apache-2.0
// Opens a remote as a store for reading; internal to remote/.
#ifndef CKPTDB_REMOTE_READ_REMOTE_URL_STORE_H_
#define CKPTDB_REMOTE_READ_REMOTE_URL_STORE_H_

#include <memory>

#include "absl/status/statusor.h"
#include "db/base/url_stores.h"
#include "remote/object_store.h"
#include "remote/urls.h"

namespace ckptdb::internal {

// Reads the records of all steps. Returns NotFound if nothing was shipped, and
// the errors of FetchStore.
absl::StatusOr<std::unique_ptr<UrlStore>> OpenRemoteUrlStore(
    std::shared_ptr<ObjectStore> remote, const UrlOptions& options);

}  // namespace ckptdb::internal

#endif  // CKPTDB_REMOTE_READ_REMOTE_URL_STORE_H_
