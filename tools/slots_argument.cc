// SPDX-License-Identifier: Apache-2.0
#include "tools/slots_argument.h"

#include <cstddef>

namespace ckptdb::tool {

std::vector<std::string> SplitSlots(absl::string_view text) {
  std::vector<std::string> names;
  std::string name;
  for (size_t i = 0; i < text.size(); ++i) {
    const bool escapes = text[i] == '\\' && i + 1 < text.size() &&
                         (text[i + 1] == ',' || text[i + 1] == '\\');
    if (text[i] != ',') name += escapes ? text[++i] : text[i];
    if (text[i] == ',' && !escapes && !name.empty()) {
      names.push_back(std::move(name));
      name.clear();
    }
  }
  if (!name.empty()) names.push_back(name);
  return names;
}

}  // namespace ckptdb::tool
