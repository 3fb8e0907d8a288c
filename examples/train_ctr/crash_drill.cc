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
namespace {

absl::Status CheckPoint(absl::string_view point) {
  const auto& points = ckptdb::kCrashPoints;
  if (point == kEvaluationPoint ||
      std::find(points.begin(), points.end(), point) != points.end()) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("--crash-at: there is no point \"", point, "\"; there are ",
                   ListCrashPoints()));
}

}  // namespace

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
  if (absl::StrContains(text, ":")) {
    const absl::Status known = CheckPoint(crash.point);
    if (!known.ok()) return known;
  }
  return crash;
}

void CrashDrill::Trained(int64_t step) const {
  if (is_here_ && at_ && at_->point.empty() && at_->step == step) {
    std::raise(SIGKILL);
  }
}

void CrashDrill::Evaluating(int64_t step) const {
  if (is_here_ && at_ && at_->point == kEvaluationPoint && at_->step == step) {
    std::raise(SIGKILL);
  }
}

void CrashDrill::Arm(int64_t step) {
  armed_ = is_here_ && at_point() && at_->step == step;
}

void CrashDrill::Passed(absl::string_view point) const {
  if (armed_ && at_->point == point) std::raise(SIGKILL);
}

absl::Status CrashDrill::Disarm() {
  if (!armed_.exchange(false)) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("the save of step ", at_->step, " did not pass the point ",
                   at_->point, " of --crash-at"));
}

}  // namespace train_ctr
