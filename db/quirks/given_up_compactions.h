// Tells which errors of RocksDB's background work are those of compactions that
// were given up; internal to db/.
#ifndef CKPTDB_DB_QUIRKS_GIVEN_UP_COMPACTIONS_H_
#define CKPTDB_DB_QUIRKS_GIVEN_UP_COMPACTIONS_H_

#include <set>
#include <thread>

#include "ckptdb/db/base/mutex.h"

namespace ckptdb::internal {

// RocksDB tells a listener of the outcome of a compaction first, with what the
// compaction was about, and of its error next, without that. Both calls are on
// the thread of the compaction, by which this finds one from the other.
// Thread-safe.
class GivenUpCompactions {
 public:
  // A compaction on the calling thread has ended. `given_up`: with an error
  // that leaves the database as it was before.
  void Completed(bool given_up) {
    const MutexLock lock(&mutex_);
    if (given_up) {
      threads_.insert(std::this_thread::get_id());
    } else {
      threads_.erase(std::this_thread::get_id());
    }
  }

  // Returns whether the error of a compaction that the calling thread reports
  // is of one that was given up. True once for each.
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
