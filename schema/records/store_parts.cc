// SPDX-License-Identifier: Apache-2.0
#include "schema/records/store_parts.h"

#include <fnmatch.h>

#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace ckptdb::internal {
namespace {

bool AnyMatches(const std::vector<std::string>& patterns,
                const std::string& name) {
  return std::any_of(patterns.begin(), patterns.end(),
                     [&](const std::string& pattern) {
                       return pattern == name ||
                              fnmatch(pattern.c_str(), name.c_str(), 0) == 0;
                     });
}

void DescribeNames(absl::string_view what,
                   const std::vector<std::string>& names, std::string* text) {
  if (names.empty()) return;
  absl::StrAppend(text, text->empty() ? "" : ", ", what, " \"",
                  absl::StrJoin(names, "\", \""), "\"");
}

}  // namespace

bool HasItem(const StoreParts& parts, Item::Kind kind, absl::string_view name) {
  return AnyMatches(kind == Item::Kind::kRows ? parts.tables : parts.items,
                    std::string(name));
}

bool HasSlot(const StoreParts& parts, absl::string_view slot) {
  return parts.slots.empty() ||
         std::find(parts.slots.begin(), parts.slots.end(), slot) !=
             parts.slots.end();
}

std::string Describe(const StoreParts& parts) {
  std::string text;
  DescribeNames("tables", parts.tables, &text);
  DescribeNames("slots", parts.slots, &text);
  if (parts.slices != SliceRange()) {
    absl::StrAppend(&text, ", slices ", parts.slices.begin, "-",
                    parts.slices.end - 1);
  }
  DescribeNames("items", parts.items, &text);
  return text.empty() ? "nothing" : text;
}

}  // namespace ckptdb::internal
