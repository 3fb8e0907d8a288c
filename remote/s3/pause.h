// SPDX-License-Identifier: Apache-2.0
// Waits that a caller can cancel; private to remote/s3.
#ifndef CKPTDB_REMOTE_S3_PAUSE_H_
#define CKPTDB_REMOTE_S3_PAUSE_H_

#include <chrono>
#include <functional>

#include "absl/status/status.h"
#include "remote/object_store.h"

namespace ckptdb::internal::s3 {

using SteadyClock = std::chrono::steady_clock;

// Returns an error if the call that is running must end. Thread-safe.
using Poll = std::function<absl::Status()>;

// The time between two polls of a thread that waits.
inline constexpr std::chrono::milliseconds kPollEvery(100);

// Returns a Poll that returns Cancelled while RemoteOptions::cancelled returns
// true, and Internal if it throws. It calls that function on one thread at a
// time.
Poll PollOfOptions(const RemoteOptions& options);

// Waits for `time`, or until `poll` returns an error, which it returns.
absl::Status Pause(SteadyClock::duration time, const Poll& poll);

}  // namespace ckptdb::internal::s3

#endif  // CKPTDB_REMOTE_S3_PAUSE_H_
