// SPDX-License-Identifier: Apache-2.0
// Resolves paths from callers; internal to the library.
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
// "." and "..", so that it stays valid after a chdir. The last parts of the
// path need not exist. Returns the errors of CheckPath, or an error naming the
// path if it cannot be resolved.
absl::StatusOr<std::string> ResolvePath(absl::string_view path);

}  // namespace ckptdb::internal

#endif  // CKPTDB_DB_BASE_RESOLVE_PATH_H_
