// SPDX-License-Identifier: Apache-2.0
#include "schema/types.h"

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"

namespace ckptdb {

absl::string_view ShardingKindName(Item::Sharding kind) {
  switch (kind) {
    case Item::Sharding::kUndeclared:
      return "undeclared";
    case Item::Sharding::kBySlices:
      return "slices";
    case Item::Sharding::kByModulo:
      return "modulo";
    case Item::Sharding::kCustom:
      return "custom";
    case Item::Sharding::kReplicated:
      return "replicated";
    case Item::Sharding::kByRange:
      return "range";
  }
  return "unknown";
}

std::string DescribeSharding(Item::Sharding kind, absl::string_view name) {
  if (kind != Item::Sharding::kCustom) {
    const absl::string_view text = ShardingKindName(kind);
    return std::string(text.data(), text.size());
  }
  return absl::StrCat("custom \"", absl::Utf8SafeCHexEscape(name), "\"");
}

}  // namespace ckptdb
