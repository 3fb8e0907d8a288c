// Paths as callers give them; internal to the library.
#ifndef CKPTDB_DB_BASE_RESOLVE_PATH_H_
#define CKPTDB_DB_BASE_RESOLVE_PATH_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace ckptdb::internal {

// InvalidArgument for a path that is empty or has a NUL byte.
absl::Status CheckPath(absl::string_view path);

std::string WithoutTrailingSlashes(absl::string_view path);

// The absolute path of the same file or folder, without symbolic links, "." and
// "..", so that it names that file after a chdir too. The end of it need not be
// there yet. The error of CheckPath, or one that names the path when it cannot
// be resolved.
absl::StatusOr<std::string> ResolvePath(absl::string_view path);

}  // namespace ckptdb::internal

#endif  // CKPTDB_DB_BASE_RESOLVE_PATH_H_
