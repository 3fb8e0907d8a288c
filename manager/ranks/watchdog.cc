// SPDX-License-Identifier: Apache-2.0
#include "manager/ranks/watchdog.h"

#include <algorithm>

#include "absl/time/clock.h"
#include "db/base/call_guard.h"
#include "schema/status.h"

namespace ckptdb::internal {

Watchdog::~Watchdog() {
  {
    const MutexLock lock(&mutex_);
    closed_ = true;
    changed_.NotifyAll();
  }
  if (thread_.joinable()) thread_.join();
}

// Starts the thread at the first deadline, because a group of one rank needs
// none.
absl::Status Watchdog::Arm(absl::Time end) {
  if (!thread_.joinable()) {
    CKPTDB_RETURN_IF_ERROR(
        CallGuarded("starting the thread that watches over deadlines",
                    [this] { thread_ = std::thread([this] { Run(); }); }));
  }
  const MutexLock lock(&mutex_);
  end_ = end;
  changed_.NotifyAll();
  return absl::OkStatus();
}

bool Watchdog::Disarm() {
  const MutexLock lock(&mutex_);
  end_ = absl::InfiniteFuture();
  // The caller may next destroy objects that the function uses.
  while (expiring_) changed_.Wait(&mutex_);
  return expired_;
}

void Watchdog::Run() {
  const MutexLock lock(&mutex_);
  while (!closed_ && !expired_) {
    const absl::Time now = absl::Now();
    if (now < end_) {
      // std::chrono has no infinite future.
      const absl::Time wake = std::min(end_, now + absl::Hours(1));
      changed_.WaitUntil(&mutex_, absl::ToChronoTime(wake));
      continue;
    }
    expiring_ = true;
    // The function may take long, so the mutex is released; Disarm waits for
    // `expiring_`.
    mutex_.Unlock();
    CallGuarded("Coordinator::Collectives::abort", expire_).IgnoreError();
    mutex_.Lock();
    expiring_ = false;
    expired_ = true;
    changed_.NotifyAll();
  }
}

}  // namespace ckptdb::internal
