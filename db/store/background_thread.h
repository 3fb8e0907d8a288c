// The thread of an open store that sweeps and folds; internal to db/.
#ifndef CKPTDB_DB_STORE_BACKGROUND_THREAD_H_
#define CKPTDB_DB_STORE_BACKGROUND_THREAD_H_

#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "ckptdb/db/base/mutex.h"
#include "ckptdb/db/store/folds.h"
#include "ckptdb/db/store/sweep_requests.h"
#include "ckptdb/db/store/sweeper.h"

namespace ckptdb::internal {

// Sweeps whenever it is asked to, and folds the newest step after it if the
// store is to. Owns the thread, which holds no lock while it waits.
class BackgroundThread {
 public:
  BackgroundThread(SweepRequests* requests, Sweeper* sweeper, Folds* folds,
                   bool fold)
      : requests_(requests), sweeper_(sweeper), folds_(folds), fold_(fold) {}
  ~BackgroundThread() { Stop(); }
  BackgroundThread(const BackgroundThread&) = delete;
  BackgroundThread& operator=(const BackgroundThread&) = delete;

  // Starts the thread, with a sweep. Returns ResourceExhausted if the machine
  // has none.
  absl::Status Start();
  // Waits for the sweep or the fold in progress, which is cancelled. Any
  // thread but this one may call it, and again.
  void Stop();

 private:
  void Run();

  SweepRequests* const requests_;
  Sweeper* const sweeper_;
  Folds* const folds_;
  const bool fold_;
  Mutex mutex_;  // held while the thread is waited for; taken before all others
  std::thread thread_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace ckptdb::internal

#endif  // CKPTDB_DB_STORE_BACKGROUND_THREAD_H_
