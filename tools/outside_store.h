// SPDX-License-Identifier: Apache-2.0
// Keeps what a command writes out of the folders of stores, which remove files
// that they do not know.
#ifndef CKPTDB_TOOLS_OUTSIDE_STORE_H_
#define CKPTDB_TOOLS_OUTSIDE_STORE_H_

#include <filesystem>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace ckptdb::tool {

// Returns the path, which need not exist, absolute and without links. Returns
// an error, such as InvalidArgument for an empty path, if it has none.
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
