// SPDX-License-Identifier: Apache-2.0
// The thread of an open store that sweeps and folds; internal to db/.
#ifndef CKPTDB_DB_STORE_BACKGROUND_THREAD_H_
#define CKPTDB_DB_STORE_BACKGROUND_THREAD_H_

#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "db/base/mutex.h"
#include "db/store/folds.h"
#include "db/store/sweep_requests.h"
#include "db/store/sweeper.h"

namespace ckptdb::internal {

// Sweeps on each request and then, if `fold` is set, folds the newest step.
// Owns the thread, which holds no lock while it waits.
class BackgroundThread {
 public:
  BackgroundThread(SweepRequests* requests, Sweeper* sweeper, Folds* folds,
                   bool fold)
      : requests_(requests), sweeper_(sweeper), folds_(folds), fold_(fold) {}
  ~BackgroundThread() { Stop(); }
  BackgroundThread(const BackgroundThread&) = delete;
  BackgroundThread& operator=(const BackgroundThread&) = delete;

  // Starts the thread, which sweeps first. Returns ResourceExhausted if the
  // system cannot create a thread.
  absl::Status Start();
  // Cancels the sweep or fold in progress and waits for it. Any thread but this
  // one may call it, more than once.
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
