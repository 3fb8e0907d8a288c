// SPDX-License-Identifier: Apache-2.0
// Resolves paths of stores from callers; internal to db/.
#ifndef CKPTDB_DB_DISK_STORE_PATH_H_
#define CKPTDB_DB_DISK_STORE_PATH_H_

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace ckptdb {

namespace internal {

class Environment;

// Resolves a path like ResolvePath (db/base/resolve_path.h) if `environment` is
// the machine's, which is the default; returns FailedPrecondition for a URL. In
// any other environment, only removes trailing slashes.
absl::StatusOr<std::string> ResolveStorePath(
    absl::string_view path,
    const std::shared_ptr<internal::Environment>& environment = nullptr);

// Adds to PermissionDenied the file of the store at `path` that this process
// may not use because another user owns it, and the remedy; returns other
// statuses as they are.
absl::Status NameFileOfAnotherUser(const absl::Status& status,
                                   const std::string& path);

// The temporary name of the store at `path` while a copy replaces it, on file
// systems that cannot exchange folders.
std::string ReplacedStorePath(const std::string& path);

}  // namespace internal
}  // namespace ckptdb

#endif  // CKPTDB_DB_DISK_STORE_PATH_H_
