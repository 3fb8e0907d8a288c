// SPDX-License-Identifier: Apache-2.0
#include "manager/policy/outlook.h"

#include <algorithm>

namespace ckptdb::internal {

Outlook EitherOf(const Outlook& left, const Outlook& right) {
  return {std::min(left.step, right.step), left.timed || right.timed};
}

// A side that is timed may agree to any step, so the other side's number
// decides.
Outlook BothOf(const Outlook& left, const Outlook& right) {
  if (left.timed && right.timed) return EitherOf(left, right);
  if (left.timed) return right;
  if (right.timed) return left;
  return {std::max(left.step, right.step)};
}

int64_t StepsAfter(int64_t step, int64_t steps) {
  return step + std::min(steps, kNoStep - step);
}

int64_t NextMultiple(int64_t step, int64_t steps) {
  return StepsAfter(step, steps - step % steps);
}

}  // namespace ckptdb::internal
