// SPDX-License-Identifier: Apache-2.0
// Limits the bytes per second of all calls of an object store; internal to
// remote/.
#ifndef CKPTDB_REMOTE_FOLDER_RATE_LIMIT_H_
#define CKPTDB_REMOTE_FOLDER_RATE_LIMIT_H_

#include <chrono>
#include <cstdint>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "db/base/cancelled.h"
#include "db/base/mutex.h"
#include "remote/object_store.h"
#include "schema/status.h"

namespace ckptdb::internal {

// Thread-safe.
class RateLimit {
 public:
  explicit RateLimit(const RemoteOptions& options) : options_(options) {}

  // Waits until `bytes`, a small part of a transfer, may be transferred.
  absl::Status Take(uint64_t bytes) {
    CKPTDB_RETURN_IF_ERROR(CheckCancelled(options_.cancelled));
    if (options_.bytes_per_second == 0) return absl::OkStatus();
    const MutexLock lock(&mutex_);
    const auto now = std::chrono::steady_clock::now();
    const auto begin = now > free_at_ ? now : free_at_;
    free_at_ = begin + std::chrono::nanoseconds(static_cast<int64_t>(
                           1e9 * static_cast<double>(bytes) /
                           static_cast<double>(options_.bytes_per_second)));
    while (std::chrono::steady_clock::now() < begin) {
      CKPTDB_RETURN_IF_ERROR(CheckCancelled(options_.cancelled));
      const auto poll =
          std::chrono::steady_clock::now() + std::chrono::milliseconds(100);
      never_.WaitUntil(&mutex_, poll < begin ? poll : begin);
    }
    return absl::OkStatus();
  }

 private:
  const RemoteOptions options_;
  Mutex mutex_;
  ConditionVariable never_;
  std::chrono::steady_clock::time_point free_at_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace ckptdb::internal

#endif  // CKPTDB_REMOTE_FOLDER_RATE_LIMIT_H_
