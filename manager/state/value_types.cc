// SPDX-License-Identifier: Apache-2.0
#include "manager/state/value_types.h"

#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "manager/state/registered_state.h"

namespace ckptdb::internal {

std::string EncodeValueTypes(const ModelState& model) {
  std::string lines;
  for (const RegisteredExtra& extra : model.extras()) {
    if (extra.type.empty()) continue;
    absl::StrAppend(&lines, lines.empty() ? "" : "\n", extra.type, " ",
                    absl::Utf8SafeCEscape(extra.name));
  }
  return lines;
}

ValueTypes ValueTypesOf(const StepRecord& record) {
  ValueTypes types;
  const auto found = record.user_metadata.find(kValueTypes);
  if (found == record.user_metadata.end()) return types;
  for (const absl::string_view line : absl::StrSplit(found->second, '\n')) {
    const std::pair<absl::string_view, absl::string_view> parts =
        absl::StrSplit(line, absl::MaxSplits(' ', 1));
    std::string name;
    if (!absl::CUnescape(parts.second, &name)) continue;
    types.emplace(std::move(name), std::string(parts.first));
  }
  return types;
}

}  // namespace ckptdb::internal
