#include "ckptdb/tools/doctor/checks.h"

#include "ckptdb/schema/status.h"
#include "ckptdb/tools/interrupt.h"

namespace ckptdb::tool {
// Aborted says that the peer is gone, Cancelled that a signal came: neither
// tells anything of the file system.
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
  // The store does without some calls that a file system may not have. One that
  // does something else is judged by `otherwise`.
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
    // A process of another host cannot be killed from here.
    if (check.kills_peer && !context.peer->can_be_killed()) continue;
    CKPTDB_ASSIGN_OR_RETURN(CheckOutcome outcome, RunCheck(check, context));
    outcomes->push_back(std::move(outcome));
  }
  return absl::OkStatus();
}

}  // namespace ckptdb::tool
