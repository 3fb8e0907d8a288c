// SPDX-License-Identifier: Apache-2.0
#include "bench/soak/ledger.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "schema/status.h"

namespace ckptdb::soak {
namespace {

absl::Status Wrong(int64_t step, absl::string_view what,
                   const std::set<int64_t>& found) {
  return absl::DataLossError(absl::StrCat(
      "step ", step, " ", what, "; the store has ", absl::StrJoin(found, " ")));
}

std::string NameOf(std::optional<int64_t> step) {
  return step ? absl::StrCat("step ", *step) : "no step";
}

}  // namespace

void Ledger::Saved(int64_t step, absl::Span<const int64_t> retired) {
  for (const int64_t gone : retired) steps_.erase(gone);
  steps_.insert(step);
  latest_ = step;
  in_doubt_.clear();
}

absl::Status Ledger::CheckMissing(const std::set<int64_t>& found,
                                  bool may_retire) const {
  for (const int64_t step : steps_) {
    if (found.count(step) > 0) continue;
    if (pinned_.count(step) > 0)
      return Wrong(step, "is pinned and gone", found);
    if (!may_retire) return Wrong(step, "was acknowledged and is gone", found);
  }
  return absl::OkStatus();
}

absl::Status Ledger::Settle(const std::set<int64_t>& found,
                            std::optional<int64_t> latest) {
  std::optional<int64_t> happened;
  for (const int64_t step : found) {
    if (steps_.count(step) > 0) continue;
    if (in_doubt_.count(step) == 0) {
      return Wrong(step, "should not be there", found);
    }
    happened = step;
  }
  CKPTDB_RETURN_IF_ERROR(CheckMissing(found, happened.has_value()));
  const std::optional<int64_t> expected = happened ? happened : latest_;
  if (latest != expected) {
    return absl::DataLossError(absl::StrCat("the latest is ", NameOf(latest),
                                            " instead of ", NameOf(expected)));
  }
  std::erase_if(steps_, [&](int64_t step) { return found.count(step) == 0; });
  if (happened) Saved(*happened, {});
  in_doubt_.clear();
  return absl::OkStatus();
}

}  // namespace ckptdb::soak
