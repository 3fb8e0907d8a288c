// SPDX-License-Identifier: Apache-2.0
// The paths of the parts of a store; internal to db/.
#ifndef CKPTDB_DB_BASE_PATHS_H_
#define CKPTDB_DB_BASE_PATHS_H_

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"

namespace ckptdb::internal {

std::string DatabasePath(absl::string_view store);
std::string StagingPath(absl::string_view store);
std::string LeasesPath(absl::string_view store);
std::string PostsPath(absl::string_view store);
std::string ShippedNotePath(absl::string_view store);
// Returns the folder of an attempt relative to the store, such as "staging/12".
std::string StagingOf(uint32_t attempt);

}  // namespace ckptdb::internal

#endif  // CKPTDB_DB_BASE_PATHS_H_
