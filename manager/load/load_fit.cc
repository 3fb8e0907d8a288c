// SPDX-License-Identifier: Apache-2.0
#include "manager/load/load_fit.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "db/base/nearest_name.h"
#include "manager/state/list_some.h"

namespace ckptdb::internal {
namespace {

std::string NameInStep(const LoadedItem& item) {
  return StepItem{item.category, item.source}.ToString();
}

// Returns, as a question, the unexpected item of the same category with the
// nearest name; empty if none is similar, as the item is probably new.
std::string NearestTo(const LoadedItem& item,
                      const std::vector<StepItem>& unexpected) {
  std::vector<std::string> names;
  for (const StepItem& each : unexpected) {
    if (each.category == item.category) names.push_back(each.name);
  }
  const std::string nearest = NearestSimilar(item.source, names);
  if (nearest.empty()) return "";
  return absl::StrCat(" (did you mean ",
                      StepItem{item.category, nearest}.ToString(), "?)");
}

}  // namespace

absl::Status CheckFit(int64_t step,
                      const std::vector<const LoadedItem*>& missing,
                      const std::vector<const LoadedItem*>& misfits,
                      const std::vector<StepItem>& unexpected,
                      absl::string_view remedy) {
  std::vector<std::string> parts;
  if (!missing.empty()) {
    parts.push_back(
        absl::StrCat("missing in the step: ",
                     ListSome(missing, ", ", [&](const LoadedItem* item) {
                       return NameInStep(*item) + NearestTo(*item, unexpected);
                     })));
  }
  if (!misfits.empty()) {
    parts.push_back(absl::StrCat(
        "not as registered: ",
        ListSome(misfits, "; ", [](const LoadedItem* item) {
          return absl::StrCat(NameInStep(*item), ": ", item->detail);
        })));
  }
  if (parts.empty()) return absl::OkStatus();
  if (!unexpected.empty()) {
    parts.push_back(absl::StrCat(
        "in the step, but not registered: ",
        ListSome(unexpected, ", ",
                 [](const StepItem& item) { return item.ToString(); })));
  }
  return absl::FailedPreconditionError(absl::StrCat(
      "step ", step, " does not fit the model; ", absl::StrJoin(parts, "; "),
      remedy.empty() ? "" : "; ", remedy));
}

}  // namespace ckptdb::internal
