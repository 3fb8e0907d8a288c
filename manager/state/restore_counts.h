// SPDX-License-Identifier: Apache-2.0
// Counts restores of tables that several managers save; internal to manager/.
#ifndef CKPTDB_MANAGER_STATE_RESTORE_COUNTS_H_
#define CKPTDB_MANAGER_STATE_RESTORE_COUNTS_H_

#include <cstdint>
#include <map>

#include "absl/base/thread_annotations.h"
#include "db/base/mutex.h"
#include "db/row_tracker.h"

namespace ckptdb::internal {

// A restore changes rows without marking them, because they then equal a step.
// But for another manager that saves the same tables to its own store they have
// changed, which it detects with these counts. Thread-safe.
class RestoreCounts {
 public:
  // Returns the process-wide counts.
  static RestoreCounts& Global();

  // Starts and stops counting the restores of the table with this tracker.
  void Watch(const ChangeTracker* tracker);
  void Unwatch(const ChangeTracker* tracker);

  // Called before a restore or load changes a table.
  void Add(const ChangeTracker* tracker);
  // Returns the number of restores of a watched table.
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
