// SPDX-License-Identifier: Apache-2.0
// Keeps outputs of the command out of the store that they describe.
#ifndef CKPTDB_TOOLS_OUTSIDE_STORE_H_
#define CKPTDB_TOOLS_OUTSIDE_STORE_H_

#include <string>

#include "absl/status/status.h"

namespace ckptdb::tool {

// Returns InvalidArgument if `path`, which need not exist, is the store's
// folder or below it. Follows links.
absl::Status CheckOutsideStore(const std::string& path,
                               const std::string& store);

}  // namespace ckptdb::tool

#endif  // CKPTDB_TOOLS_OUTSIDE_STORE_H_
