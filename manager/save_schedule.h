// Whether a step is saved, and as what: permanent steps by one policy,
// ephemeral ones between them by another.
//
//   SaveSchedule schedule;
//   CKPTDB_ASSIGN_OR_RETURN(schedule.permanent, FixedInterval(1000));
//   CKPTDB_ASSIGN_OR_RETURN(schedule.ephemeral, FixedInterval(100));
//   SaveDecision decision = Decide(schedule, {.step = 1100});
//   decision.kind;  // SaveKind::kEphemeral
//   decision.why;   // "step 1100 is a multiple of 100"
//
// A pure function of its arguments, if the policies and the veto are.
#ifndef CKPTDB_MANAGER_SAVE_SCHEDULE_H_
#define CKPTDB_MANAGER_SAVE_SCHEDULE_H_

#include <cstdint>
#include <functional>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "ckptdb/manager/save_policy.h"

namespace ckptdb {

struct SaveSchedule {
  // Null: no step is saved so. Default: null.
  SavePolicyPtr permanent;

  // A step that both want is permanent. Null: no step is saved so. Default:
  // null.
  SavePolicyPtr ephemeral;

  // No ephemeral save sooner than so many steps after the newest step, of
  // either kind: for policies that know of time, or of a veto that ended. At
  // least 0. Default: 0.
  int64_t ephemeral_cooldown_steps = 0;

  // Asked before an ephemeral save; says why there must be none now, or
  // nothing. Default: none.
  std::function<std::string(int64_t step)> veto_ephemeral;
};

enum class SaveKind { kNone, kPermanent, kEphemeral };
absl::string_view SaveKindName(SaveKind kind);

struct SaveDecision {
  SaveKind kind = SaveKind::kNone;
  std::string why;

  bool operator==(const SaveDecision&) const = default;
};

// InvalidArgument naming what cannot be.
absl::Status CheckSchedule(const SaveSchedule& schedule);

// Never a step that is not after the newest one: the trainer was set back, or
// has been asked about it before.
SaveDecision Decide(const SaveSchedule& schedule, const SaveContext& context);

}  // namespace ckptdb

#endif  // CKPTDB_MANAGER_SAVE_SCHEDULE_H_
