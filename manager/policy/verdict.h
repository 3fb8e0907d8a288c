// SPDX-License-Identifier: Apache-2.0
// A yes or no and why; internal to manager/.
//
//   Verdict verdict = AnyOf({false, "step 7 is not a multiple of 5"},
//                           {true, "no step is saved yet"});
//   verdict.yes;  // true
//   verdict.reason;  // "no step is saved yet"
#ifndef CKPTDB_MANAGER_POLICY_VERDICT_H_
#define CKPTDB_MANAGER_POLICY_VERDICT_H_

#include <string>

namespace ckptdb::internal {

struct Verdict {
  bool yes = false;
  std::string reason;

  bool operator==(const Verdict&) const = default;
};

// Returns yes if either is yes, with the reasons of those that are; otherwise
// no, with both reasons.
Verdict AnyOf(const Verdict& left, const Verdict& right);
// Returns no if either is no, with the reasons of those that are; otherwise
// yes, with both reasons.
Verdict AllOf(const Verdict& left, const Verdict& right);
// Returns the opposite, for the same reason.
Verdict Negate(Verdict verdict);

}  // namespace ckptdb::internal

#endif  // CKPTDB_MANAGER_POLICY_VERDICT_H_
