// Questions to keep policies, those of the caller's own among them; internal to
// manager/.
#ifndef CKPTDB_MANAGER_POLICY_ASK_WHOLE_H_
#define CKPTDB_MANAGER_POLICY_ASK_WHOLE_H_

#include <cstdint>

#include "absl/types/span.h"
#include "ckptdb/manager/keep_policy.h"

namespace ckptdb::internal {

// The policy's answer, made whole: all steps are kept, with a warning, when it
// is not about each step, or when there is no policy.
KeepAnswer AskWhole(const KeepPolicy* policy, absl::Span<const StepInfo> steps,
                    int64_t now_micros);

}  // namespace ckptdb::internal

#endif  // CKPTDB_MANAGER_POLICY_ASK_WHOLE_H_
