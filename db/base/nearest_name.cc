// SPDX-License-Identifier: Apache-2.0
#include "db/base/nearest_name.h"

#include <algorithm>

namespace ckptdb::internal {

// Keeps one row of the table of Levenshtein's algorithm.
size_t EditDistance(absl::string_view a, absl::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t changed = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({changed, row[j] + 1, row[j - 1] + 1});
    }
  }
  return row[b.size()];
}

absl::string_view Nearest(absl::string_view name,
                          const std::vector<std::string>& names) {
  return *std::min_element(names.begin(), names.end(),
                           [&](const std::string& a, const std::string& b) {
                             return EditDistance(name, a) <
                                    EditDistance(name, b);
                           });
}

std::string NearestSimilar(absl::string_view name,
                           const std::vector<std::string>& names) {
  if (names.empty()) return "";
  const absl::string_view nearest = Nearest(name, names);
  const size_t letters = std::max(name.size(), nearest.size());
  if (EditDistance(name, nearest) > (letters + 1) / 2) return "";
  return std::string(nearest);
}

}  // namespace ckptdb::internal
