// Calls a function when a time has passed; internal to manager/.
#ifndef CKPTDB_MANAGER_RANKS_WATCHDOG_H_
#define CKPTDB_MANAGER_RANKS_WATCHDOG_H_

#include <functional>
#include <thread>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "ckptdb/db/base/mutex.h"

namespace ckptdb::internal {

// It has a thread of its own from the first Arm on. One thread uses it.
class Watchdog {
 public:
  // `bite` is called at most once, on the thread of the watchdog.
  explicit Watchdog(std::function<void()> bite) : bite_(std::move(bite)) {}
  ~Watchdog();
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

  // Bites at `end` unless it is disarmed before. Returns an error when the
  // machine has no thread for it.
  absl::Status Arm(absl::Time end);
  // Returns whether it has bitten; a bite under way is waited for.
  bool Disarm();

 private:
  void Run();

  const std::function<void()> bite_;
  std::thread thread_;

  Mutex mutex_;
  ConditionVariable changed_;
  absl::Time end_ ABSL_GUARDED_BY(mutex_) = absl::InfiniteFuture();
  bool biting_ ABSL_GUARDED_BY(mutex_) = false;
  bool bitten_ ABSL_GUARDED_BY(mutex_) = false;
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace ckptdb::internal

#endif  // CKPTDB_MANAGER_RANKS_WATCHDOG_H_
