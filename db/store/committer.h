// SPDX-License-Identifier: Apache-2.0
// Changes the records of an open store, first on disk and then in memory;
// internal to db/.
#ifndef CKPTDB_DB_STORE_COMMITTER_H_
#define CKPTDB_DB_STORE_COMMITTER_H_

#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "db/base/mutex.h"
#include "db/store/commit.h"
#include "db/store/step_catalog.h"
#include "db/store/store_folder.h"
#include "db/store/sweep_requests.h"
#include "db/store/table_summaries.h"
#include "schema/types.h"

namespace ckptdb::internal {

// Serializes changes of records. While a caller holds changes(), the state in
// StepCatalog that its change is based on stays as it is until the change is
// durable and in memory. A sweep does not take this mutex; it removes only what
// no record needs.
//
// Any thread may call it. The mutex is held over I/O; it is acquired after
// those of PostTaker and Folds, and before that of StepCatalog.
class Committer {
 public:
  Committer(StoreFolder* folder, StepCatalog* catalog,
            TableSummaryCache* summaries, SweepRequests* requests)
      : folder_(folder),
        catalog_(catalog),
        summaries_(summaries),
        requests_(requests) {}
  Committer(const Committer&) = delete;
  Committer& operator=(const Committer&) = delete;

  // Serializes changes: the holder makes one change.
  Mutex* changes() ABSL_LOCK_RETURNED(changes_) { return &changes_; }

  // Writes the records of an attempt that has begun in the catalog.
  absl::Status WriteAttempt(const BegunAttempt& begun, bool sync)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(changes_);

  // Returns ResourceExhausted unless CommitStep() has enough disk space.
  absl::Status CheckDiskSpace(const Commit& commit) const;
  // Steps 3b to 3d of a save, then the update of memory. An error before the
  // commit point leaves everything unchanged. An error after it makes the
  // database unusable, because memory and disk differ.
  absl::Status CommitStep(Commit commit)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(changes_);

  // Deletes a step. Its record stays until the sweep, for the chains that
  // contain it.
  absl::Status Delete(const StepRecord& record)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(changes_);
  // Replaces the records of steps, in one batch.
  absl::Status Replace(std::vector<StepRecord> records, Spare spare)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(changes_);
  absl::Status SetUserMetadata(const UserMetadata& metadata)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(changes_);

 private:
  absl::Status WriteOut(const Commit& commit);
  absl::Status WriteCommit(const Commit& commit);
  void Acknowledge(Commit commit);

  StoreFolder* const folder_;
  StepCatalog* const catalog_;
  TableSummaryCache* const summaries_;
  SweepRequests* const requests_;
  Mutex changes_;
};

}  // namespace ckptdb::internal

#endif  // CKPTDB_DB_STORE_COMMITTER_H_
