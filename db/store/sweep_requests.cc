// SPDX-License-Identifier: Apache-2.0
#include "db/store/sweep_requests.h"

#include <chrono>

namespace ckptdb::internal {
namespace {

// Time until the next sweep for garbage that a lease keeps.
constexpr std::chrono::seconds kLeasePause(5);

}  // namespace

void SweepRequests::Request() {
  {
    const MutexLock lock(&mutex_);
    requested_ = true;
  }
  changed_.NotifyAll();
}

void SweepRequests::SetLeasedGarbage(bool leased) {
  const MutexLock lock(&mutex_);
  leased_garbage_ = leased;
}

bool SweepRequests::Wait() {
  const MutexLock lock(&mutex_);
  const auto deadline = std::chrono::steady_clock::now() + kLeasePause;
  while (!requested_ && !stopped_) {
    if (!leased_garbage_) {
      changed_.Wait(&mutex_);
    } else if (!changed_.WaitUntil(&mutex_, deadline)) {
      break;
    }
  }
  // A request during the sweep sets it again, because the sweep may have marked
  // already.
  requested_ = false;
  return !stopped_;
}

void SweepRequests::Stop() {
  {
    const MutexLock lock(&mutex_);
    stopped_ = true;
  }
  changed_.NotifyAll();
}

bool SweepRequests::stopped() const {
  const MutexLock lock(&mutex_);
  return stopped_;
}

}  // namespace ckptdb::internal
