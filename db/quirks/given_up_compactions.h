// SPDX-License-Identifier: Apache-2.0
// Identifies errors of compactions that were given up among the errors of
// RocksDB's background work; internal to db/.
#ifndef CKPTDB_DB_QUIRKS_GIVEN_UP_COMPACTIONS_H_
#define CKPTDB_DB_QUIRKS_GIVEN_UP_COMPACTIONS_H_

#include <set>
#include <thread>

#include "db/base/mutex.h"

namespace ckptdb::internal {

// RocksDB first reports a compaction's outcome to a listener, with the
// compaction's details, and then its error, without them. Both calls are on the
// compaction's thread, which connects them here. Thread-safe.
class GivenUpCompactions {
 public:
  // A compaction on the calling thread has ended. `given_up`: with an error
  // that leaves the database unchanged.
  void Completed(bool given_up) {
    const MutexLock lock(&mutex_);
    if (given_up) {
      threads_.insert(std::this_thread::get_id());
    } else {
      threads_.erase(std::this_thread::get_id());
    }
  }

  // Returns whether the compaction error that the calling thread reports
  // belongs to one that was given up. True once for each.
  bool TakeError() {
    const MutexLock lock(&mutex_);
    return threads_.erase(std::this_thread::get_id()) != 0;
  }

 private:
  Mutex mutex_;
  std::set<std::thread::id> threads_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace ckptdb::internal

#endif  // CKPTDB_DB_QUIRKS_GIVEN_UP_COMPACTIONS_H_
