// SPDX-License-Identifier: Apache-2.0
#include "tools/needs.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace ckptdb::tool {
namespace {

constexpr size_t kNamedSteps = 4;

bool Has(const std::vector<Version>& versions, const Version& version) {
  return std::find(versions.begin(), versions.end(), version) != versions.end();
}

}  // namespace

Needs NeedsOf(const Version& version, absl::Span<const StepRecord> steps) {
  Needs needs;
  for (const StepRecord& step : steps) {
    // A step does not keep itself alive, although it is in its own chain.
    if (step.version == version) continue;
    const int64_t number = step.version.step;
    if (Has(step.chain, version)) needs.in_chain_of.push_back(number);
    if (Has(step.references, version)) needs.referenced_by.push_back(number);
    if (step.folded && step.folded_from == version) {
      needs.folded_into.push_back(number);
    }
  }
  return needs;
}

std::string StepsText(const std::vector<int64_t>& steps) {
  // One more name is as short as "and 1 more".
  const size_t named =
      steps.size() > kNamedSteps + 1 ? kNamedSteps : steps.size();
  const std::string names =
      absl::StrJoin(absl::MakeConstSpan(steps).first(named), ", ");
  if (steps.size() == 1) return absl::StrCat("step ", names);
  return absl::StrCat(
      "steps ", names,
      named == steps.size()
          ? ""
          : absl::StrCat(" and ", steps.size() - named, " more"));
}

std::string NeedsText(const Needs& needs) {
  std::vector<std::string> parts;
  const auto add = [&](const char* what, const std::vector<int64_t>& steps) {
    if (!steps.empty()) parts.push_back(absl::StrCat(what, StepsText(steps)));
  };
  add("runs of ", needs.in_chain_of);
  add("tensors of ", needs.referenced_by);
  add("increment of ", needs.folded_into);
  return parts.empty() ? "-" : absl::StrJoin(parts, "; ");
}

void SetNeeds(const Needs& needs, Json* json) {
  (*json)["in_chain_of"] = needs.in_chain_of;
  (*json)["referenced_by"] = needs.referenced_by;
  (*json)["folded_into"] = needs.folded_into;
}

}  // namespace ckptdb::tool
