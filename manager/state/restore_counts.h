// Counts restores of tables that several managers save; internal to manager/.
#ifndef CKPTDB_MANAGER_STATE_RESTORE_COUNTS_H_
#define CKPTDB_MANAGER_STATE_RESTORE_COUNTS_H_

#include <cstdint>
#include <map>

#include "absl/base/thread_annotations.h"
#include "ckptdb/db/base/mutex.h"
#include "ckptdb/db/row_tracker.h"

namespace ckptdb::internal {

// A restore changes rows and marks none, as they are then those of a step. To
// another manager that saves the same tables to a store of its own they have
// changed all the same, and it finds that by these counts. Thread-safe.
class RestoreCounts {
 public:
  // Returns those of the process.
  static RestoreCounts& Global();

  // Begins and ends to count the restores of a table, which has this tracker.
  void Watch(const ChangeTracker* tracker);
  void Unwatch(const ChangeTracker* tracker);

  // A restore or a load is about to change a table.
  void Add(const ChangeTracker* tracker);
  // Returns the restores of a table that is watched.
  uint64_t Count(const ChangeTracker* tracker) const;

 private:
  struct Watched {
    uint64_t watchers = 0;
    uint64_t restores = 0;
  };

  mutable Mutex mutex_;
  std::map<const ChangeTracker*, Watched> watched_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace ckptdb::internal

#endif  // CKPTDB_MANAGER_STATE_RESTORE_COUNTS_H_
