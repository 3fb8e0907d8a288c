#include "ckptdb/manager/verdict.h"

#include <utility>

#include "absl/strings/str_join.h"

namespace ckptdb {
namespace {

// `decisive` wherever there is one, else the other.
Verdict Combine(const std::vector<Verdict>& verdicts, bool decisive) {
  std::vector<std::string> deciding;
  std::vector<std::string> others;
  for (const Verdict& verdict : verdicts) {
    (verdict.yes == decisive ? deciding : others).push_back(verdict.why);
  }
  const bool decided = !deciding.empty();
  return {decided == decisive,
          absl::StrJoin(decided ? deciding : others, "; ")};
}

}  // namespace

Verdict AnyOf(const std::vector<Verdict>& verdicts) {
  return Combine(verdicts, true);
}

Verdict AllOf(const std::vector<Verdict>& verdicts) {
  return Combine(verdicts, false);
}

Verdict Negate(Verdict verdict) {
  return {!verdict.yes, std::move(verdict.why)};
}

}  // namespace ckptdb
