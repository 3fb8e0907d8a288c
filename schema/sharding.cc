#include "ckptdb/schema/sharding.h"

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"

namespace ckptdb {

absl::string_view ShardingKindName(ShardingKind kind) {
  switch (kind) {
    case ShardingKind::kUndeclared:
      return "undeclared";
    case ShardingKind::kBySlices:
      return "slices";
    case ShardingKind::kByModulo:
      return "modulo";
    case ShardingKind::kCustom:
      return "custom";
    case ShardingKind::kReplicated:
      return "replicated";
  }
  return "unknown";
}

std::string DescribeSharding(ShardingKind kind, absl::string_view name) {
  if (kind != ShardingKind::kCustom) {
    const absl::string_view text = ShardingKindName(kind);
    return std::string(text.data(), text.size());
  }
  return absl::StrCat("custom \"", absl::Utf8SafeCHexEscape(name), "\"");
}

}  // namespace ckptdb
