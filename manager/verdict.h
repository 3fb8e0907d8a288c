// A yes or no and why: what policies answer.
//
//   Verdict verdict = AnyOf({{false, "step 7 is no multiple of 5"},
//                            {true, "no step is saved yet"}});
//   verdict.yes;  // true
//   verdict.why;  // "no step is saved yet"
#ifndef CKPTDB_MANAGER_VERDICT_H_
#define CKPTDB_MANAGER_VERDICT_H_

#include <string>
#include <vector>

namespace ckptdb {

struct Verdict {
  bool yes = false;
  std::string why;

  bool operator==(const Verdict&) const = default;
};

// Yes when one says yes, for all the reasons of those that do; no, for all
// reasons, when none does.
Verdict AnyOf(const std::vector<Verdict>& verdicts);
// No when one says no, for all the reasons of those that do; else yes, for all
// reasons.
Verdict AllOf(const std::vector<Verdict>& verdicts);
// The opposite, for the same reason.
Verdict Negate(Verdict verdict);

}  // namespace ckptdb

#endif  // CKPTDB_MANAGER_VERDICT_H_
