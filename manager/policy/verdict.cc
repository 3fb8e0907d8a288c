// SPDX-License-Identifier: Apache-2.0
#include "manager/policy/verdict.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace ckptdb::internal {
namespace {

// Combines two verdicts. If they agree, the result has both reasons; otherwise
// it has the `decisive` one's.
Verdict Combine(const Verdict& left, const Verdict& right, bool decisive) {
  if (left.yes == right.yes) {
    return {left.yes, absl::StrCat(left.reason, "; ", right.reason)};
  }
  return left.yes == decisive ? left : right;
}

}  // namespace

Verdict AnyOf(const Verdict& left, const Verdict& right) {
  return Combine(left, right, true);
}

Verdict AllOf(const Verdict& left, const Verdict& right) {
  return Combine(left, right, false);
}

Verdict Negate(Verdict verdict) {
  return {!verdict.yes, std::move(verdict.reason)};
}

}  // namespace ckptdb::internal
