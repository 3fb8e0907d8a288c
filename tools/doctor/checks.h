// What a store needs of a file system, each as a check that tries it; see
// docs/file-systems.md.
#ifndef CKPTDB_TOOLS_DOCTOR_CHECKS_H_
#define CKPTDB_TOOLS_DOCTOR_CHECKS_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "ckptdb/tools/doctor/file_calls.h"
#include "ckptdb/tools/doctor/peer.h"

namespace ckptdb::tool {

enum class CheckResult {
  kOk,
  kMissing,  // the store does without, and `consequence` says what that costs
  kUnsafe,   // a store there may lose steps, or its saves fail
};
std::string CheckResultText(CheckResult result);

// What a check needs to try.
struct CheckContext {
  FileCalls* files = nullptr;
  Peer* peer = nullptr;  // null in a check of one process
  // How long a file that is old is looked at again, to measure that.
  absl::Duration patience = absl::Seconds(5);
};

struct Check {
  std::string name;
  // Returns what was seen. Unimplemented: the file system does not have it.
  // Aborted and Cancelled end all checks. Any other error: it does something
  // else.
  absl::StatusOr<std::string> (*run)(const CheckContext& context) = nullptr;
  CheckResult otherwise = CheckResult::kUnsafe;
  std::string consequence;  // unless it is ok
  // Where the store does without what is Unimplemented; else as `consequence`.
  std::string without = {};
  bool kills_peer = false;  // skipped with a peer that cannot be killed
};

struct CheckOutcome {
  std::string name;
  std::string host;  // of the peer; empty in a check of one process
  CheckResult result = CheckResult::kOk;
  std::string observed;
  std::string consequence;  // empty when it is ok
};

// Returns whether an error says that the peer is gone, or of an interrupt.
bool EndsAllChecks(const absl::Status& status);

// The error of a call that succeeded and did something else.
absl::Status UnexpectedError(absl::string_view what);

// The checks of one process, and those with another one.
const std::vector<Check>& LocalChecks();
const std::vector<Check>& PeerChecks();

// Runs one check. Returns an error only when no further one can be run.
absl::StatusOr<CheckOutcome> RunCheck(const Check& check,
                                      const CheckContext& context);

// Appends the outcomes of all checks with a peer, or without one. Returns
// Cancelled after an interrupt.
absl::Status RunChecks(const CheckContext& context,
                       std::vector<CheckOutcome>* outcomes);

}  // namespace ckptdb::tool

#endif  // CKPTDB_TOOLS_DOCTOR_CHECKS_H_
