// Requests of a sweep that calls of a store make to its background thread;
// internal to db/.
#ifndef CKPTDB_DB_STORE_SWEEP_REQUESTS_H_
#define CKPTDB_DB_STORE_SWEEP_REQUESTS_H_

#include "absl/base/thread_annotations.h"
#include "ckptdb/db/base/mutex.h"

namespace ckptdb::internal {

// Thread-safe. Its mutex is the last of the store's: whoever holds it calls
// nothing else.
class SweepRequests {
 public:
  // Asks for a sweep; whether one is under way or not, another one follows.
  void Request();

  // Sets whether a sweep has left garbage for leases alone. As the end of a
  // lease is not signalled, Wait() then returns after five seconds at the
  // latest.
  void SetLeasedGarbage(bool leased);

  // Waits until a sweep is due, and returns true, or until Stop() was called,
  // and returns false.
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
