// SPDX-License-Identifier: Apache-2.0
// The in-memory records of an open store, with state that is not on disk;
// internal to db/.
#ifndef CKPTDB_DB_STORE_STEP_CATALOG_H_
#define CKPTDB_DB_STORE_STEP_CATALOG_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "db/base/mutex.h"
#include "db/meta/catalog.h"
#include "db/options.h"
#include "db/store/commit.h"
#include "db/store/version_holds.h"
#include "schema/records/records.h"
#include "schema/types.h"

namespace ckptdb::internal {

// A save between Begin and the end of Publish or Abandon.
struct SaveInProgress {
  SaveSpec spec;
  int64_t begun_at_micros = 0;
  StepRecord parent;                  // attempt 0 if there is no parent
  std::shared_ptr<void> parent_hold;  // keeps the data that stagers refer to
};

// An attempt of a save or a fold, and the root record to be written with it.
struct BegunAttempt {
  AttemptRecord attempt;
  RootRecord root;
  StepRecord parent;  // of a save; attempt 0 if there is no parent
};

// A step's record, and the hold on all versions that it needs.
struct HeldStep {
  StepRecord record;
  std::shared_ptr<void> hold;
};
struct HeldChain {
  std::vector<StepRecord> chain;  // see ChainOf
  std::shared_ptr<void> hold;
};

// All records at one moment, and a hold on all versions that the steps need.
struct HeldCatalog {
  Catalog records;
  std::set<uint32_t> in_progress;  // attempts of saves and folds
  std::shared_ptr<void> hold;
};

// The part of the catalog that a sweep needs, at one moment.
struct CatalogMarks {
  std::map<uint32_t, AttemptRecord> attempts;  // all
  // Versions that are needed as a whole: steps, saves and folds in progress,
  // and interrupted folds that can be resumed.
  std::set<Version> whole;
  std::set<Version> held;  // by calls and readers of this process
  // Steps that need parts of versions that are not in `whole`.
  std::vector<StepRecord> borrowers;
};

// Owns the records: the steps, the retired versions, the attempts, and which
// attempts are in progress. Committer applies one change at a time, when it is
// durable; Sweeper forgets versions that nothing needs; any thread reads.
//
// Thread-safe. The mutex is acquired after that of Committer and before that of
// VersionHolds. It is held briefly, and never over I/O. Errors begin with the
// store's path.
class StepCatalog {
 public:
  StepCatalog(std::string path, Catalog records, VersionHolds* holds)
      : path_(std::move(path)), holds_(holds), records_(std::move(records)) {}
  StepCatalog(const StepCatalog&) = delete;
  StepCatalog& operator=(const StepCatalog&) = delete;

  // Returns read(records), while no record changes. `read` must neither call
  // this object nor block.
  template <typename Function>
  auto Read(Function&& read) const {
    const MutexLock lock(&mutex_);
    return read(records_);
  }
  absl::StatusOr<StepRecord> FindStep(int64_t step) const;
  absl::StatusOr<StepRecord> Latest() const;

  // Finds a step and holds all versions that it needs, atomically.
  absl::StatusOr<HeldStep> HoldStep(int64_t step);
  absl::StatusOr<HeldChain> HoldChain(int64_t step, HeldBy by);
  // The same for the versions that `plan` returns.
  using PlanVersions =
      absl::FunctionRef<absl::StatusOr<std::vector<Version>>(const Catalog&)>;
  absl::StatusOr<std::shared_ptr<void>> Hold(HeldBy by, PlanVersions plan);
  HeldCatalog HoldAll();

  // Returns AlreadyExists if the step exists and must not be overwritten.
  absl::Status CheckStepAvailable(const SaveSpec& spec) const;
  // Takes the next attempt for a save. Returns the errors of SaveSpec::parent.
  absl::StatusOr<BegunAttempt> BeginSave(const SaveSpec& spec,
                                         int64_t begun_at_micros);
  // Returns NotFound if no save of this version is in progress.
  absl::StatusOr<SaveInProgress> FindSave(const Version& version) const;
  absl::Status EndSave(const Version& version);
  void EndAllSaves();

  // Takes the attempt of an interrupted fold of this step, or a new one. Does
  // not reuse an attempt in `ingested`: its staged files are already the
  // database's, and writing a part again would overwrite them. Until EndFold
  // the attempt is not swept, even if its step is deleted. One fold at a time.
  BegunAttempt BeginFold(const StepRecord& step, int64_t begun_at_micros,
                         const std::map<Version, uint64_t>& ingested);
  void EndFold();

  // Apply changes that are already durable. A commit ends its save.
  void ApplyCommit(Commit commit);
  void ApplyRecord(StepRecord record);
  // Deletes a step whose retirement is only in the write-ahead log.
  void ApplyDeletion(const StepRecord& record);
  void ApplyUserMetadata(const UserMetadata& metadata);

  // Returns whether a deletion is only in the write-ahead log, and clears the
  // flag: the caller must flush, or call GiveBackUnflushed.
  bool TakeUnflushed();
  void GiveBackUnflushed();
  // Gives up the interrupted folds after which another step was saved, as only
  // the newest step is folded in the background, and those whose files are in
  // `ingested`. No later BeginFold resumes them, so a sweep may remove them.
  void AbandonFolds(const std::map<Version, uint64_t>& ingested);
  CatalogMarks Mark() const;
  // Returns whether a save or fold that is in progress or can be resumed has
  // its files in the staging folder of this attempt.
  bool MayStage(uint32_t attempt) const;
  // Removes the records of versions that a sweep has deleted.
  void Forget(const std::vector<Version>& versions);

 private:
  void Retire(StepRecord record) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  AttemptRecord TakeAttempt(int64_t step, int64_t begun_at_micros,
                            uint32_t folds)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Returns whether the attempt is a fold that can be resumed: its step has not
  // changed, and it was not abandoned.
  bool CanFold(const AttemptRecord& attempt) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status NotInProgress(const Version& version) const;

  const std::string path_;
  VersionHolds* const holds_;
  mutable Mutex mutex_;
  Catalog records_ ABSL_GUARDED_BY(mutex_);
  std::map<uint32_t, SaveInProgress> saves_ ABSL_GUARDED_BY(mutex_);
  std::optional<Version> folding_ ABSL_GUARDED_BY(mutex_);
  bool unflushed_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace ckptdb::internal

#endif  // CKPTDB_DB_STORE_STEP_CATALOG_H_
