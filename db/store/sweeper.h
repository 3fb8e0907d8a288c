// SPDX-License-Identifier: Apache-2.0
// Sweeps: removes all data that no step, reader, lease or save in progress
// needs. See "Sweep" in docs/design.md. Internal to db/.
#ifndef CKPTDB_DB_STORE_SWEEPER_H_
#define CKPTDB_DB_STORE_SWEEPER_H_

#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "db/base/mutex.h"
#include "db/store.h"
#include "db/store/step_catalog.h"
#include "db/store/store_folder.h"
#include "db/store/sweep_marker.h"
#include "db/store/sweep_requests.h"
#include "db/store/table_summaries.h"
#include "db/store/version_holds.h"
#include "schema/types.h"

namespace ckptdb::internal {

// Runs one sweep at a time and remembers how the last one ended. Any thread may
// call it; saves and deletions proceed meanwhile, because it does not take
// Committer::changes(). sweep_mutex_ is held over I/O and acquired before that
// of StepCatalog; outcome_mutex_ is held briefly, and no other is acquired
// under it.
class Sweeper {
 public:
  // A thorough sweep rewrites the remaining small saves, so that the space of
  // the removed ones is free on return. After a quick sweep, compactions free
  // it later.
  enum class Depth { kQuick, kThorough };

  Sweeper(StoreFolder* folder, StepCatalog* catalog, VersionHolds* holds,
          TableSummaryCache* summaries, SweepRequests* requests)
      : folder_(folder),
        catalog_(catalog),
        summaries_(summaries),
        requests_(requests),
        marker_(folder, catalog, holds) {}
  Sweeper(const Sweeper&) = delete;
  Sweeper& operator=(const Sweeper&) = delete;

  absl::StatusOr<Store::SweepResult> Sweep(Depth depth);

  // Returns the entries that the last sweep skipped.
  std::vector<Usage::SkippedEntry> unswept() const;
  // Returns the status of the last sweep, and of the background fold that
  // followed it.
  absl::Status status() const;
  void SetStatus(const absl::Status& status);

 private:
  absl::Status Remove(Depth depth, Garbage* garbage, Store::SweepResult* result)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(sweep_mutex_);
  absl::Status Free(const Garbage& garbage)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(sweep_mutex_);
  void CleanFolders(std::vector<Usage::SkippedEntry>* unswept)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(sweep_mutex_);
  absl::Status Forget(const std::vector<Version>& versions)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(sweep_mutex_);
  absl::Status CompactAway(const std::vector<Version>& versions,
                           Store::SweepResult* result)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(sweep_mutex_);

  StoreFolder* const folder_;
  StepCatalog* const catalog_;
  TableSummaryCache* const summaries_;
  SweepRequests* const requests_;

  Mutex sweep_mutex_;
  SweepMarker marker_ ABSL_GUARDED_BY(sweep_mutex_);

  mutable Mutex outcome_mutex_;
  absl::Status status_ ABSL_GUARDED_BY(outcome_mutex_);
  std::vector<Usage::SkippedEntry> unswept_ ABSL_GUARDED_BY(outcome_mutex_);
};

}  // namespace ckptdb::internal

#endif  // CKPTDB_DB_STORE_SWEEPER_H_
