// SPDX-License-Identifier: Apache-2.0
// Checks of policies' arguments; internal to manager/.
#ifndef CKPTDB_MANAGER_POLICY_POLICY_CHECKS_H_
#define CKPTDB_MANAGER_POLICY_POLICY_CHECKS_H_

#include <cmath>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "db/base/call_guard.h"
#include "db/base/status_exception.h"
#include "manager/policies.h"

namespace ckptdb::internal {

inline constexpr double kMicrosPerSecond = 1e6;

inline absl::Status CheckAtLeast(absl::string_view policy,
                                 absl::string_view what, int64_t value,
                                 int64_t least) {
  if (value >= least) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      policy, ": ", what, " is ", value, "; it must be at least ", least));
}

// Checks that each step is at least 0.
inline absl::Status CheckSteps(absl::string_view policy,
                               const std::vector<int64_t>& steps) {
  absl::Status status;
  for (const int64_t step : steps) {
    status.Update(CheckAtLeast(policy, "step", step, 0));
  }
  return status;
}

// Checks a number of seconds that a clock can represent.
inline absl::Status CheckSeconds(absl::string_view policy, double seconds,
                                 bool may_be_zero) {
  constexpr double kMost = 1e11;
  if (std::isfinite(seconds) && seconds <= kMost &&
      (may_be_zero ? seconds >= 0 : seconds > 0)) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      policy, ": seconds is ", seconds, "; it must be ",
      may_be_zero ? "at least 0" : "above 0", " and at most ", kMost));
}

// Checks a caller's function, and its name in reasons.
template <typename Function>
absl::Status CheckFunction(absl::string_view policy, absl::string_view name,
                           const Function& function) {
  if (name.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(
        policy, ": the name is empty; reasons of this policy need one"));
  }
  if (function != nullptr) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(policy, ": function \"", name, "\" is null"));
}

// Returns the result of a caller's function. Rethrows its exception as a
// StatusException with the policy and its name, for the guard around the
// decision.
template <typename Function>
auto CallNamed(absl::string_view policy, absl::string_view name,
               const Function& function) {
  auto answer = CallGuarded(absl::StrCat(policy, " \"", name, "\""), function);
  if (!answer.ok()) throw StatusException(answer.status());
  return *std::move(answer);
}

inline absl::Status CheckBest(absl::string_view where,
                              const KeepPolicy::BestOptions& options) {
  if (options.metric.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(
        where, ": metric is empty; name the metric that ranks the steps"));
  }
  return CheckAtLeast(where, "count", options.count, 0);
}

// Checks a policy that another one is composed of.
template <typename Policy>
absl::Status CheckOperand(absl::string_view policy, const Policy& operand) {
  if (operand.has_value()) return operand.status();
  return absl::InvalidArgumentError(absl::StrCat(
      policy,
      ": an operand is not a policy; make it with one of the functions of "
      "manager/policies.h"));
}

// Returns the first error of two operands.
template <typename Policy>
absl::Status CheckOperands(absl::string_view policy, const Policy& left,
                           const Policy& right) {
  absl::Status status = CheckOperand(policy, left);
  status.Update(CheckOperand(policy, right));
  return status;
}

// Returns whether `seconds` have passed between the two; true if the clock was
// set back.
inline bool HavePassed(int64_t from_micros, int64_t to_micros, double seconds) {
  const double passed =
      static_cast<double>(to_micros) - static_cast<double>(from_micros);
  return passed < 0 || passed >= seconds * kMicrosPerSecond;
}

// Returns the reason for the decision of a policy that calls HavePassed for the
// time since `step`.
inline std::string PassedReason(bool passed, int64_t from_micros,
                                int64_t to_micros, double seconds,
                                absl::string_view not_passed, int64_t step) {
  if (to_micros < from_micros) {
    return absl::StrCat(
        "the clock was set back after step ", step, ", saved at ",
        absl::FormatTime("%Y-%m-%d %H:%M:%S", absl::FromUnixMicros(from_micros),
                         absl::UTCTimeZone()),
        " UTC");
  }
  return absl::StrCat(passed ? "" : not_passed, seconds, " seconds after step ",
                      step);
}

}  // namespace ckptdb::internal

#endif  // CKPTDB_MANAGER_POLICY_POLICY_CHECKS_H_
