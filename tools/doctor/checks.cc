// SPDX-License-Identifier: Apache-2.0
#include "tools/doctor/checks.h"

#include "schema/status.h"
#include "tools/interrupt.h"

namespace ckptdb::tool {
// Aborted means that the peer has ended, Cancelled that a signal arrived:
// neither says anything about the file system.
bool EndsAllChecks(const absl::Status& status) {
  return absl::IsAborted(status) || absl::IsCancelled(status);
}
std::string CheckResultText(CheckResult result) {
  switch (result) {
    case CheckResult::kOk:
      return "ok";
    case CheckResult::kMissing:
      return "missing";
    case CheckResult::kUnsafe:
      return "unsafe";
  }
  return "unknown";
}

absl::Status UnexpectedError(absl::string_view what) {
  return absl::InternalError(what);
}

absl::StatusOr<CheckOutcome> RunCheck(const Check& check,
                                      const CheckContext& context) {
  CheckOutcome outcome;
  outcome.name = check.name;
  if (context.peer != nullptr) outcome.host = context.peer->host();
  const absl::StatusOr<std::string> seen = check.run(context);
  if (EndsAllChecks(seen.status())) return seen.status();
  if (seen.ok()) {
    outcome.observed = *seen;
    return outcome;
  }
  outcome.observed = std::string(seen.status().message());
  // The store works without some calls that a file system may lack. A call that
  // misbehaves is judged by `otherwise`.
  if (absl::IsUnimplemented(seen.status()) && !check.without.empty()) {
    outcome.result = CheckResult::kMissing;
    outcome.consequence = check.without;
  } else {
    outcome.result = check.otherwise;
    outcome.consequence = check.consequence;
  }
  return outcome;
}

absl::Status RunChecks(const CheckContext& context,
                       std::vector<CheckOutcome>* outcomes) {
  const auto& checks = context.peer == nullptr ? LocalChecks() : PeerChecks();
  for (const Check& check : checks) {
    CKPTDB_RETURN_IF_ERROR(Interrupt::Check());
    // A process on another host cannot be killed from here.
    if (check.kills_peer && !context.peer->can_be_killed()) continue;
    CKPTDB_ASSIGN_OR_RETURN(CheckOutcome outcome, RunCheck(check, context));
    outcomes->push_back(std::move(outcome));
  }
  return absl::OkStatus();
}

}  // namespace ckptdb::tool
