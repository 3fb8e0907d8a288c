// SPDX-License-Identifier: Apache-2.0
// Polls ManagerOptions::observers.cancelled during waits; internal to manager/.
#ifndef CKPTDB_MANAGER_STATE_POLL_CANCELLED_H_
#define CKPTDB_MANAGER_STATE_POLL_CANCELLED_H_

#include <chrono>
#include <functional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "db/base/call_guard.h"
#include "schema/status.h"

namespace ckptdb::internal {

// How often a wait polls. The function may belong to a signal handler, which
// cannot notify a condition variable.
inline constexpr std::chrono::milliseconds kPollEvery(100);

// Returns Cancelled if `cancelled`, which may be null, returns true, and
// Internal if it throws. The caller must hold no lock. `what` completes
// "cancelled while waiting for".
inline absl::Status PollCancelled(const std::function<bool()>& cancelled,
                                  absl::string_view what) {
  if (!cancelled) return absl::OkStatus();
  const absl::StatusOr<bool> answer =
      CallGuarded("ManagerOptions::observers.cancelled", cancelled);
  CKPTDB_RETURN_IF_ERROR(answer.status());
  if (!*answer) return absl::OkStatus();
  return absl::CancelledError(
      absl::StrCat("cancelled while waiting for ", what));
}

// Calls wait(kPollEvery), which waits no longer than that and returns whether
// the wait is over, until it is. Polls in between, and returns the error of
// PollCancelled.
template <typename Wait>
absl::Status WaitPolling(const std::function<bool()>& cancelled,
                         absl::string_view what, Wait&& wait) {
  while (!wait(kPollEvery)) {
    CKPTDB_RETURN_IF_ERROR(PollCancelled(cancelled, what));
  }
  return absl::OkStatus();
}

}  // namespace ckptdb::internal

#endif  // CKPTDB_MANAGER_STATE_POLL_CANCELLED_H_
