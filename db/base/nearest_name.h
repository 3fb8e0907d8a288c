// SPDX-License-Identifier: Apache-2.0
// Finds the name that a misspelt one was probably meant to be; internal to
// ckptdb.
#ifndef CKPTDB_DB_BASE_NEAREST_NAME_H_
#define CKPTDB_DB_BASE_NEAREST_NAME_H_

#include <cstddef>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace ckptdb::internal {

// Returns how many letters must be changed, added or removed to turn one name
// into the other.
size_t EditDistance(absl::string_view a, absl::string_view b);

// Returns the one of `names` with the least edit distance from `name`, the
// first of several. `names` must not be empty.
absl::string_view Nearest(absl::string_view name,
                          const std::vector<std::string>& names);

// Returns the nearest of `names` if it differs in at most half of the letters;
// empty if none does.
std::string NearestSimilar(absl::string_view name,
                           const std::vector<std::string>& names);

}  // namespace ckptdb::internal

#endif  // CKPTDB_DB_BASE_NEAREST_NAME_H_
