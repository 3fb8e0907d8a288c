// SPDX-License-Identifier: Apache-2.0
#include "remote/s3/limits.h"

#include <algorithm>
#include <chrono>

#include "schema/status.h"

namespace ckptdb::internal::s3 {

void ByteRate::Take(uint64_t bytes) {
  if (!limited()) return;
  const std::chrono::duration<double> time(
      static_cast<double>(bytes) / static_cast<double>(bytes_per_second_));
  const SteadyClock::time_point now = SteadyClock::now();
  const MutexLock lock(&mutex_);
  paid_until_ = std::max(paid_until_, now) +
                std::chrono::duration_cast<SteadyClock::duration>(time);
}

SteadyClock::duration ByteRate::Delay() const {
  if (!limited()) return SteadyClock::duration::zero();
  const SteadyClock::time_point now = SteadyClock::now();
  const MutexLock lock(&mutex_);
  return std::max(paid_until_ - now, SteadyClock::duration::zero());
}

RequestLimit::RequestLimit(int most)
    : most_(std::max(most, 1)), limit_(most_) {}

absl::Status RequestLimit::Enter(const Poll& poll) {
  for (;;) {
    CKPTDB_RETURN_IF_ERROR(poll());
    const MutexLock lock(&mutex_);
    if (running_ >= static_cast<int>(limit_)) {
      changed_.WaitUntil(&mutex_, SteadyClock::now() + kPollEvery);
    }
    if (running_ >= static_cast<int>(limit_)) continue;
    ++running_;
    return absl::OkStatus();
  }
}

void RequestLimit::Leave() {
  const MutexLock lock(&mutex_);
  --running_;
  changed_.NotifyOne();
}

void RequestLimit::Succeeded() {
  const MutexLock lock(&mutex_);
  limit_ = std::min(most_, limit_ + 1 / limit_);
  changed_.NotifyOne();
}

void RequestLimit::SlowDown(SteadyClock::time_point began) {
  const MutexLock lock(&mutex_);
  if (began < halved_) return;
  limit_ = std::max(1.0, limit_ / 2);
  halved_ = SteadyClock::now();
}

int RequestLimit::limit() const {
  const MutexLock lock(&mutex_);
  return static_cast<int>(limit_);
}

}  // namespace ckptdb::internal::s3
