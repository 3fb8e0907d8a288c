#include "ckptdb/manager/policy/ask_whole.h"

#include <string>

#include "absl/strings/str_cat.h"

namespace ckptdb::internal {

KeepAnswer AskWhole(const KeepPolicy* policy, absl::Span<const StepInfo> steps,
                    int64_t now_micros) {
  KeepAnswer answer;
  if (policy != nullptr) answer = policy->Ask(steps, now_micros);
  if (answer.keep.size() != steps.size()) {
    answer.warning =
        absl::StrCat("a KeepPolicy has answered for ", answer.keep.size(),
                     " of ", steps.size(), " steps; all of them are kept");
    answer.keep.assign(steps.size(), true);
    answer.why = [](size_t) -> std::string {
      return "its policy has not answered for each step";
    };
  }
  if (!answer.why) {
    answer.why = [](size_t) -> std::string {
      return "its policy says no more";
    };
  }
  return answer;
}

}  // namespace ckptdb::internal
