// SPDX-License-Identifier: Apache-2.0
#include "train_ctr/crash_drill.h"

#include <ckptdb/db/options.h>

#include <algorithm>
#include <csignal>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"

namespace train_ctr {

std::string ListCrashPoints() {
  return absl::StrCat(absl::StrJoin(ckptdb::kCrashPoints, ", "), " and ",
                      kEvaluationPoint);
}

absl::StatusOr<CrashAt> ParseCrashAt(absl::string_view text) {
  const std::pair<absl::string_view, absl::string_view> parts =
      absl::StrSplit(text, absl::MaxSplits(':', 1));
  CrashAt crash{0, std::string(parts.second)};
  if (!absl::SimpleAtoi(parts.first, &crash.step) || crash.step < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("--crash-at \"", text,
                     "\" is not STEP or STEP:POINT with a STEP of 1 or more"));
  }
  const auto& points = ckptdb::kCrashPoints;
  if (!absl::StrContains(text, ":") || crash.point == kEvaluationPoint ||
      std::find(points.begin(), points.end(), crash.point) != points.end()) {
    return crash;
  }
  return absl::InvalidArgumentError(
      absl::StrCat("--crash-at: there is no point \"", crash.point,
                   "\"; there are ", ListCrashPoints()));
}

void CrashDrill::KillAt(int64_t step, absl::string_view point) const {
  if (is_here_ && at_ && at_->point == point && at_->step == step) {
    std::raise(SIGKILL);
  }
}

absl::Status CrashDrill::Disarm() {
  if (!armed_.exchange(false)) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("the save of step ", at_->step, " did not pass the point ",
                   at_->point, " of --crash-at"));
}

}  // namespace train_ctr
