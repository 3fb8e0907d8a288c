// SPDX-License-Identifier: Apache-2.0
#include "remote/s3/pause.h"

#include <algorithm>
#include <memory>

#include "db/base/call_guard.h"
#include "db/base/mutex.h"
#include "schema/status.h"

namespace ckptdb::internal::s3 {

Poll PollOfOptions(const RemoteOptions& options) {
  if (!options.cancelled) return [] { return absl::OkStatus(); };
  return [cancelled = options.cancelled,
          mutex = std::make_shared<Mutex>()]() -> absl::Status {
    const MutexLock lock(mutex.get());
    CKPTDB_ASSIGN_OR_RETURN(const bool stop,
                            CallGuarded("RemoteOptions::cancelled", cancelled));
    if (!stop) return absl::OkStatus();
    return absl::CancelledError(
        "the call was cancelled: RemoteOptions::cancelled");
  };
}

absl::Status Pause(SteadyClock::duration time, const Poll& poll) {
  const SteadyClock::time_point end = SteadyClock::now() + time;
  Mutex mutex;
  ConditionVariable never;
  for (;;) {
    CKPTDB_RETURN_IF_ERROR(poll());
    const SteadyClock::time_point now = SteadyClock::now();
    if (now >= end) return absl::OkStatus();
    const MutexLock lock(&mutex);
    never.WaitUntil(&mutex,
                    std::min<SteadyClock::time_point>(end, now + kPollEvery));
  }
}

}  // namespace ckptdb::internal::s3
