// Paths of stores as callers give them; internal to db/.
#ifndef CKPTDB_DB_DISK_STORE_PATH_H_
#define CKPTDB_DB_DISK_STORE_PATH_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace ckptdb {

namespace internal {

class Environment;

// Resolves a path as ResolvePath does (db/base/resolve_path.h) when
// `environment` is the machine's, which null stands for. In any other
// environment only the trailing slashes are removed.
absl::StatusOr<std::string> ResolveStorePath(
    absl::string_view path,
    const std::shared_ptr<internal::Environment>& environment = nullptr);

}  // namespace internal
}  // namespace ckptdb

#endif  // CKPTDB_DB_DISK_STORE_PATH_H_
