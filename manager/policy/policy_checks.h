// Checks of what configures a policy; internal to manager/.
#ifndef CKPTDB_MANAGER_POLICY_POLICY_CHECKS_H_
#define CKPTDB_MANAGER_POLICY_POLICY_CHECKS_H_

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace ckptdb::internal {

inline constexpr double kMicrosPerSecond = 1e6;

inline absl::Status CheckAtLeast(absl::string_view policy,
                                 absl::string_view what, int64_t value,
                                 int64_t least) {
  if (value >= least) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      policy, ": ", what, " is ", value, "; it must be at least ", least));
}

// A number of seconds that a clock can count to.
inline absl::Status CheckSeconds(absl::string_view policy, double seconds,
                                 bool may_be_zero) {
  constexpr double kMost = 1e11;
  if (std::isfinite(seconds) && seconds <= kMost &&
      (may_be_zero ? seconds >= 0 : seconds > 0)) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat(policy, ": ", seconds, " seconds are not ",
                   may_be_zero ? "from 0" : "above 0", " to ", kMost));
}

inline absl::Status CheckPolicyName(absl::string_view policy,
                                    absl::string_view name) {
  if (!name.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(policy, ": its name is empty"));
}

// What a composition is made of.
template <typename Policies>
absl::Status CheckParts(absl::string_view policy, const Policies& policies) {
  if (policies.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(policy, ": of no policies"));
  }
  const auto null = std::find(policies.begin(), policies.end(), nullptr);
  if (null == policies.end()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(policy, ": policy ", null - policies.begin(), " is null"));
}

// Whether so many seconds lie between; a clock that went back tells nothing,
// and counts as yes.
inline bool HavePassed(int64_t from_micros, int64_t to_micros, double seconds) {
  const double passed =
      static_cast<double>(to_micros) - static_cast<double>(from_micros);
  return passed < 0 || passed >= seconds * kMicrosPerSecond;
}

}  // namespace ckptdb::internal

#endif  // CKPTDB_MANAGER_POLICY_POLICY_CHECKS_H_
