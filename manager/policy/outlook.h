// SPDX-License-Identifier: Apache-2.0
// When a policy may next save a step; internal to manager/.
//
//   Outlook outlook = EitherOf({.step = 200}, {.timed = true});
//   outlook.step;   // 200: earlier steps are saved only because of the time
//   outlook.timed;  // true
#ifndef CKPTDB_MANAGER_POLICY_OUTLOOK_H_
#define CKPTDB_MANAGER_POLICY_OUTLOOK_H_

#include <cstdint>
#include <limits>

namespace ckptdb::internal {

inline constexpr int64_t kNoStep = std::numeric_limits<int64_t>::max();

// What a policy may decide after the step that it has just decided on, as long
// as no other step is saved.
struct Outlook {
  // The first step that it may save because of its number, or kNoStep.
  int64_t step = kNoStep;
  // It may save any step because time has passed or a machine is preempted.
  bool timed = false;

  bool operator==(const Outlook&) const = default;
};

// The outlook of a policy that saves if either, or both, of two do.
Outlook EitherOf(const Outlook& left, const Outlook& right);
Outlook BothOf(const Outlook& left, const Outlook& right);

// Returns step + steps, at most kNoStep; both are at least 0.
int64_t StepsAfter(int64_t step, int64_t steps);
// Returns the first multiple of `steps` after `step`, at most kNoStep.
int64_t NextMultiple(int64_t step, int64_t steps);

}  // namespace ckptdb::internal

#endif  // CKPTDB_MANAGER_POLICY_OUTLOOK_H_
