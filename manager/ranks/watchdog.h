// SPDX-License-Identifier: Apache-2.0
// Calls a function when a time has passed; internal to manager/.
#ifndef CKPTDB_MANAGER_RANKS_WATCHDOG_H_
#define CKPTDB_MANAGER_RANKS_WATCHDOG_H_

#include <functional>
#include <thread>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "db/base/mutex.h"

namespace ckptdb::internal {

// Owns a thread from the first Arm on. Used by one thread.
class Watchdog {
 public:
  // `expire` is called at most once, on the watchdog's thread.
  explicit Watchdog(std::function<void()> expire)
      : expire_(std::move(expire)) {}
  ~Watchdog();
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

  // Calls `expire` at `end` unless Disarm is called before. Returns an error if
  // the thread cannot be started.
  absl::Status Arm(absl::Time end);
  // Returns whether `expire` was called; waits for it if it is running.
  bool Disarm();

 private:
  void Run();

  const std::function<void()> expire_;
  std::thread thread_;

  Mutex mutex_;
  ConditionVariable changed_;
  absl::Time end_ ABSL_GUARDED_BY(mutex_) = absl::InfiniteFuture();
  bool expiring_ ABSL_GUARDED_BY(mutex_) = false;
  bool expired_ ABSL_GUARDED_BY(mutex_) = false;
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace ckptdb::internal

#endif  // CKPTDB_MANAGER_RANKS_WATCHDOG_H_
