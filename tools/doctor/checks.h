// SPDX-License-Identifier: Apache-2.0
// A store's requirements on a file system, each as a check; see
// docs/file-systems.md.
#ifndef CKPTDB_TOOLS_DOCTOR_CHECKS_H_
#define CKPTDB_TOOLS_DOCTOR_CHECKS_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "tools/doctor/file_calls.h"
#include "tools/doctor/peer.h"

namespace ckptdb::tool {

enum class CheckResult {
  kOk,
  kMissing,  // the store works without it; `consequence` says at what cost
  kUnsafe,   // a store there may lose steps, or its saves may fail
};
std::string CheckResultText(CheckResult result);

// The inputs of a check.
struct CheckContext {
  FileCalls* files = nullptr;
  Peer* peer = nullptr;  // null in a check of one process
  // How long to wait for a stale file to be refreshed, to measure the delay.
  absl::Duration patience = absl::Seconds(5);
};

struct Check {
  std::string name;
  // Returns what was observed. Unimplemented: the file system lacks the call.
  // Aborted and Cancelled end all checks. Any other error: the call misbehaves.
  absl::StatusOr<std::string> (*run)(const CheckContext& context) = nullptr;
  CheckResult otherwise = CheckResult::kUnsafe;
  std::string consequence;  // if the result is not kOk
  // The consequence if the call is Unimplemented and the store works without
  // it.
  std::string without = {};
  bool kills_peer = false;  // skipped if the peer cannot be killed
};

struct CheckOutcome {
  std::string name;
  std::string host;  // the peer's; empty in a check of one process
  CheckResult result = CheckResult::kOk;
  std::string observed;
  std::string consequence;  // empty for kOk
};

// Returns whether an error means that the peer has ended or the user
// interrupted the command.
bool EndsAllChecks(const absl::Status& status);

// The error for a call that succeeded but misbehaved.
absl::Status UnexpectedError(absl::string_view what);

// The checks of one process, and those with a peer.
const std::vector<Check>& LocalChecks();
const std::vector<Check>& PeerChecks();

// Runs one check. Returns an error only if no further check can run.
absl::StatusOr<CheckOutcome> RunCheck(const Check& check,
                                      const CheckContext& context);

// Appends the outcomes of all checks with a peer, or without one. Returns
// Cancelled after an interrupt.
absl::Status RunChecks(const CheckContext& context,
                       std::vector<CheckOutcome>* outcomes);

}  // namespace ckptdb::tool

#endif  // CKPTDB_TOOLS_DOCTOR_CHECKS_H_
