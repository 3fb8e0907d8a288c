// SPDX-License-Identifier: Apache-2.0
#include "manager/policy/save_schedule.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "manager/policy/outlook.h"
#include "manager/policy/policy_checks.h"
#include "manager/policy/save_rule.h"
#include "schema/bytes/annotate.h"
#include "schema/status.h"

namespace ckptdb {
namespace internal {
namespace {

// Returns the context of schedule.permanent. Ephemeral steps soon make room for
// others, so they do not delay a permanent one.
SavePolicy::Context ForPermanent(SavePolicy::Context context,
                                 const std::optional<StepInfo>& last) {
  context.last = last;
  return context;
}

// Returns why an ephemeral save that is due does not happen; empty if it does.
// The veto is the caller's code, and is called only for a save that would be
// made.
std::string Prevented(const SaveSchedule& schedule,
                      const SavePolicy::Context& context) {
  if (context.last.has_value() &&
      context.step - context.last->step < schedule.ephemeral_cooldown_steps) {
    return absl::StrCat("step ", context.last->step, " was saved less than ",
                        schedule.ephemeral_cooldown_steps, " steps before");
  }
  return schedule.veto_ephemeral ? schedule.veto_ephemeral(context.step) : "";
}

// Decides whether a step is saved as ephemeral. `not_permanent`, the reason why
// it is not saved as permanent, becomes part of the explanation.
SavePolicy::Decision DecideEphemeral(const SaveSchedule& schedule,
                                     const SavePolicy::Context& context,
                                     std::string not_permanent) {
  if (!schedule.ephemeral.has_value()) {
    return {SavePolicy::Kind::kNone, std::move(not_permanent)};
  }
  Verdict wanted = Decide(schedule.ephemeral, context);
  if (!wanted.yes) {
    return {SavePolicy::Kind::kNone,
            absl::StrCat("not permanent: ", not_permanent,
                         "; not ephemeral: ", wanted.reason)};
  }
  const std::string prevented = Prevented(schedule, context);
  if (prevented.empty())
    return {SavePolicy::Kind::kEphemeral, std::move(wanted.reason)};
  return {
      SavePolicy::Kind::kNone,
      absl::StrCat("not ephemeral, although ", wanted.reason, ": ", prevented)};
}

}  // namespace

absl::Status CheckSchedule(const SaveSchedule& schedule) {
  CKPTDB_RETURN_IF_ERROR(
      Annotate(schedule.permanent.status(), "schedule.permanent"));
  CKPTDB_RETURN_IF_ERROR(
      Annotate(schedule.ephemeral.status(), "schedule.ephemeral"));
  return CheckAtLeast("schedule", "ephemeral_cooldown_steps",
                      schedule.ephemeral_cooldown_steps, 0);
}

SavePolicy::Decision Decide(const SaveSchedule& schedule,
                            const SavePolicy::Context& context,
                            const std::optional<StepInfo>& last_permanent) {
  // The schedule never saves a step that is not after the newest; an explicit
  // Save can overwrite it.
  if (context.last.has_value() && context.step <= context.last->step) {
    return {SavePolicy::Kind::kNone,
            absl::StrCat("step ", context.step, " is not after step ",
                         context.last->step, ", the newest")};
  }
  std::string not_permanent = "schedule.permanent is not set";
  if (schedule.permanent.has_value()) {
    Verdict wanted =
        Decide(schedule.permanent, ForPermanent(context, last_permanent));
    if (wanted.yes)
      return {SavePolicy::Kind::kPermanent, std::move(wanted.reason)};
    not_permanent = std::move(wanted.reason);
  }
  return DecideEphemeral(schedule, context, std::move(not_permanent));
}

// The cooldown delays ephemeral saves. A veto cannot be foreseen.
int64_t NextDue(const SaveSchedule& schedule,
                const SavePolicy::Context& context,
                const std::optional<StepInfo>& last_permanent) {
  int64_t ephemeral = OutlookOf(schedule.ephemeral, context).step;
  if (context.last.has_value()) {
    ephemeral = std::max(
        ephemeral,
        StepsAfter(context.last->step, schedule.ephemeral_cooldown_steps));
  }
  const Outlook permanent =
      OutlookOf(schedule.permanent, ForPermanent(context, last_permanent));
  return std::min(permanent.step, ephemeral);
}

}  // namespace internal

absl::string_view SaveKindName(SavePolicy::Kind kind) {
  switch (kind) {
    case SavePolicy::Kind::kNone:
      return "none";
    case SavePolicy::Kind::kPermanent:
      return "permanent";
    case SavePolicy::Kind::kEphemeral:
      return "ephemeral";
  }
  return "unknown";
}

}  // namespace ckptdb
