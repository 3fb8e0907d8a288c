// SPDX-License-Identifier: Apache-2.0
// Prevents commands from writing into stores, which delete unknown files.
#ifndef CKPTDB_TOOLS_OUTSIDE_STORE_H_
#define CKPTDB_TOOLS_OUTSIDE_STORE_H_

#include <filesystem>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace ckptdb::tool {

// Returns the absolute path without links. The last parts need not exist.
// Returns an error, such as InvalidArgument for an empty path, if it cannot be
// resolved.
absl::StatusOr<std::filesystem::path> ResolveOutput(const std::string& path);

// Returns InvalidArgument if `path`, for a new store, is below the folder of
// any store.
absl::Status CheckNotWithinStore(const std::string& path);

// Returns InvalidArgument if `path` is the folder of any store, or below it;
// `store` need not be whole.
absl::Status CheckOutsideStore(const std::string& path,
                               const std::string& store);

}  // namespace ckptdb::tool

#endif  // CKPTDB_TOOLS_OUTSIDE_STORE_H_
