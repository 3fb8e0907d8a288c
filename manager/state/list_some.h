// SPDX-License-Identifier: Apache-2.0
// Formats lists of names in messages; a model may have thousands; internal to
// manager/.
#ifndef CKPTDB_MANAGER_STATE_LIST_SOME_H_
#define CKPTDB_MANAGER_STATE_LIST_SOME_H_

#include <cstddef>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"

namespace ckptdb::internal {

inline constexpr size_t kMostListed = 20;

// Joins the first kMostListed items, formatted with `print`, and counts the
// rest: "a, b, and 3 more".
template <typename Each, typename Print>
std::string ListSome(const std::vector<Each>& all, absl::string_view separator,
                     Print print) {
  std::vector<std::string> some;
  for (const Each& each : all) {
    if (some.size() == kMostListed) break;
    some.push_back(print(each));
  }
  if (all.size() > kMostListed) {
    some.push_back(absl::StrCat("and ", all.size() - kMostListed, " more"));
  }
  return absl::StrJoin(some, separator);
}

}  // namespace ckptdb::internal

#endif  // CKPTDB_MANAGER_STATE_LIST_SOME_H_
