// Paths as callers give them; internal to the library.
#ifndef CKPTDB_DB_BASE_RESOLVE_PATH_H_
#define CKPTDB_DB_BASE_RESOLVE_PATH_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace ckptdb::internal {

// Returns InvalidArgument for a path that is empty or contains a NUL byte.
absl::Status CheckPath(absl::string_view path);

std::string WithoutTrailingSlashes(absl::string_view path);

// Returns the absolute path of the same file or folder, without symbolic links,
// "." and "..", so that it names that file after a chdir too. The last parts of
// the path need not exist. Fails as CheckPath does, or with an error that names
// the path when it cannot be resolved.
absl::StatusOr<std::string> ResolvePath(absl::string_view path);

}  // namespace ckptdb::internal

#endif  // CKPTDB_DB_BASE_RESOLVE_PATH_H_
