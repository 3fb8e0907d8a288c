// SPDX-License-Identifier: Apache-2.0
// Evaluates a schedule for a step; internal to manager/.
//
//   SaveSchedule schedule{.permanent = SaveEveryNSteps(1000),
//                         .ephemeral = SaveEveryNSteps(100)};
//   SavePolicy::Decision decision = Decide(schedule, {.step = 1100}, {});
//   decision.kind;  // SavePolicy::Kind::kEphemeral
//   decision.reason;   // "step 1100 is a multiple of 100"
//
// A pure function of its arguments, if the policies and the veto are.
#ifndef CKPTDB_MANAGER_POLICY_SAVE_SCHEDULE_H_
#define CKPTDB_MANAGER_POLICY_SAVE_SCHEDULE_H_

#include <cstdint>
#include <optional>

#include "absl/status/status.h"
#include "manager/policies.h"

namespace ckptdb::internal {

// Returns InvalidArgument with a policy's error, or for a number below its
// bound.
absl::Status CheckSchedule(const SaveSchedule& schedule);

// Never saves a step that is not after the newest one: the trainer was reset,
// or has already asked about that step. `last_permanent` is the newest
// permanent step, committed or being saved: schedule.permanent receives it as
// the newest.
SavePolicy::Decision Decide(const SaveSchedule& schedule,
                            const SavePolicy::Context& context,
                            const std::optional<StepInfo>& last_permanent);

// Returns the first step after the context's, which Decide has not saved, that
// it may save because of its number, or kNoStep. Earlier steps may be due
// because time has passed or a machine is preempted.
int64_t NextDue(const SaveSchedule& schedule,
                const SavePolicy::Context& context,
                const std::optional<StepInfo>& last_permanent);

}  // namespace ckptdb::internal

#endif  // CKPTDB_MANAGER_POLICY_SAVE_SCHEDULE_H_
