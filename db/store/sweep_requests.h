// SPDX-License-Identifier: Apache-2.0
// Passes sweep requests to a store's background thread; internal to db/.
#ifndef CKPTDB_DB_STORE_SWEEP_REQUESTS_H_
#define CKPTDB_DB_STORE_SWEEP_REQUESTS_H_

#include "absl/base/thread_annotations.h"
#include "db/base/mutex.h"

namespace ckptdb::internal {

// Thread-safe. Its mutex is the last in the store's locking order: its holder
// acquires no other.
class SweepRequests {
 public:
  // Requests a sweep. One follows even if another is in progress.
  void Request();

  // Sets whether the last sweep left garbage only because of leases. The end of
  // a lease is not signalled, so Wait() then returns within five seconds.
  void SetLeasedGarbage(bool leased);

  // Blocks until a sweep is due, and returns true, or until Stop(), and returns
  // false.
  bool Wait();

  void Stop();
  bool stopped() const;

 private:
  mutable Mutex mutex_;
  ConditionVariable changed_;
  bool requested_ ABSL_GUARDED_BY(mutex_) = false;
  bool leased_garbage_ ABSL_GUARDED_BY(mutex_) = false;
  bool stopped_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace ckptdb::internal

#endif  // CKPTDB_DB_STORE_SWEEP_REQUESTS_H_
