// SPDX-License-Identifier: Apache-2.0
#include "db/base/cancelled.h"

#include "db/base/call_guard.h"
#include "schema/status.h"

namespace ckptdb::internal {

absl::Status CheckCancelled(const std::function<bool()>& cancelled) {
  if (!cancelled) return absl::OkStatus();
  CKPTDB_ASSIGN_OR_RETURN(const bool stop,
                          CallGuarded("ReadOptions::cancelled", cancelled));
  if (!stop) return absl::OkStatus();
  return absl::CancelledError("the read was cancelled: ReadOptions::cancelled");
}

std::function<absl::Status()> PollOf(const std::function<bool()>& cancelled) {
  if (!cancelled) return nullptr;
  return [&cancelled] { return CheckCancelled(cancelled); };
}

}  // namespace ckptdb::internal
