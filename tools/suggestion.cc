// SPDX-License-Identifier: Apache-2.0
#include "tools/suggestion.h"

#include <fnmatch.h>

#include <algorithm>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "db/base/nearest_name.h"

namespace ckptdb::tool {

std::string DidYouMean(absl::string_view name,
                       const std::vector<std::string>& names) {
  const std::string nearest = internal::NearestSimilar(name, names);
  if (nearest.empty()) return "";
  return absl::StrCat("; did you mean \"", nearest, "\"?");
}

std::vector<std::string> ItemNames(const StepReader& step, Item::Kind kind) {
  std::set<std::string> names;
  for (const StepRecord::Rank& rank : step.ranks()) {
    for (const Item& item : rank.items) {
      if (item.kind == kind) names.insert(item.name);
    }
  }
  return {names.begin(), names.end()};
}

std::vector<std::string> ItemNames(const StepReader& step) {
  std::vector<std::string> names;
  for (const Item::Kind kind :
       {Item::Kind::kTensor, Item::Kind::kBlob, Item::Kind::kRows}) {
    for (std::string& name : ItemNames(step, kind)) {
      names.push_back(std::move(name));
    }
  }
  return names;
}

absl::Status NoMatchError(const StepReader& step, const std::string& glob) {
  return absl::NotFoundError(absl::StrCat(
      "step ", step.record().version.step, " has no item that matches \"", glob,
      "\"", DidYouMean(glob, ItemNames(step))));
}

absl::Status CheckMatchesAny(const StepReader& step, const std::string& glob) {
  if (glob.empty()) return absl::OkStatus();
  for (const std::string& name : ItemNames(step)) {
    if (fnmatch(glob.c_str(), name.c_str(), 0) == 0) return absl::OkStatus();
  }
  return NoMatchError(step, glob);
}

absl::StatusOr<StepReader::TableSpec> FindTable(const StepReader& step,
                                                const std::string& name) {
  auto table = step.FindTable(name);
  if (!absl::IsNotFound(table.status())) return table;
  for (const Item::Kind kind : {Item::Kind::kTensor, Item::Kind::kBlob}) {
    const std::vector<std::string> others = ItemNames(step, kind);
    if (std::find(others.begin(), others.end(), name) == others.end()) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("\"", name, "\" is a ", ItemKindName(kind),
                     "; run \"ckptdb cat ", name, "\""));
  }
  return absl::NotFoundError(
      absl::StrCat(table.status().message(),
                   DidYouMean(name, ItemNames(step, Item::Kind::kRows))));
}

}  // namespace ckptdb::tool
