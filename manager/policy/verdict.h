// A yes or no and why; internal to manager/.
//
//   Verdict verdict = AnyOf({false, "step 7 is no multiple of 5"},
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

// Yes when one says yes, for the reasons of those that do; no, for both
// reasons, when neither does.
Verdict AnyOf(const Verdict& left, const Verdict& right);
// Returns no if one says no, with the reasons of those that do, and yes with
// both reasons if neither does.
Verdict AllOf(const Verdict& left, const Verdict& right);
// The opposite, for the same reason.
Verdict Negate(Verdict verdict);

}  // namespace ckptdb::internal

#endif  // CKPTDB_MANAGER_POLICY_VERDICT_H_
