// The records of an open store in memory, with what only memory knows of them;
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
#include "ckptdb/db/base/mutex.h"
#include "ckptdb/db/meta/catalog.h"
#include "ckptdb/db/options.h"
#include "ckptdb/db/store/commit.h"
#include "ckptdb/db/store/version_holds.h"
#include "ckptdb/schema/records/records.h"
#include "ckptdb/schema/types.h"

namespace ckptdb::internal {

// A save between Begin and the end of Publish or Abandon.
struct SaveInProgress {
  SaveSpec spec;
  int64_t begun_at_micros = 0;
  StepRecord parent;                  // a version of attempt 0: none
  std::shared_ptr<void> parent_hold;  // keeps what stagers may refer to
};

// An attempt of a save or a fold, and the root record to be written with it.
struct BegunAttempt {
  AttemptRecord attempt;
  RootRecord root;
  StepRecord parent;  // of a save; a version of attempt 0: none
};

// A step as it was found, and what keeps all that it needs.
struct HeldStep {
  StepRecord record;
  std::shared_ptr<void> hold;
};
struct HeldChain {
  std::vector<StepRecord> chain;  // see ChainOf
  std::shared_ptr<void> hold;
};

// All records as of one moment, and the hold that keeps all that the steps
// need.
struct HeldCatalog {
  Catalog records;
  std::set<uint32_t> in_progress;  // attempts of saves and folds
  std::shared_ptr<void> hold;
};

// The state of the catalog that a sweep has to know, as of one moment.
struct CatalogMarks {
  std::map<uint32_t, AttemptRecord> attempts;  // all
  // Versions that are needed as a whole: steps, saves and folds in progress,
  // folds that were cut short and can go on.
  std::set<Version> whole;
  std::set<Version> held;  // by calls and readers of this process
  // Steps that need something of versions that are not in `whole`.
  std::vector<StepRecord> borrowers;
};

// Owns the records: the steps, what they were before, the attempts, and which
// of those are in progress. Records are changed by Committer, one change at a
// time, when they are durable, and by Sweeper, which forgets what nothing
// needs; any thread reads them.
//
// Thread-safe. The mutex is taken after that of Committer and before that of
// VersionHolds. It is held for moments, and never over I/O. Errors begin with
// the path of the store.
class StepCatalog {
 public:
  StepCatalog(std::string path, Catalog records, VersionHolds* holds)
      : path_(std::move(path)), holds_(holds), records_(std::move(records)) {}
  StepCatalog(const StepCatalog&) = delete;
  StepCatalog& operator=(const StepCatalog&) = delete;

  // Returns what `read` makes of the records while nothing changes them. `read`
  // may neither call this object nor wait.
  template <typename Function>
  auto Read(Function&& read) const {
    const MutexLock lock(&mutex_);
    return read(records_);
  }
  absl::StatusOr<StepRecord> FindStep(int64_t step) const;
  absl::StatusOr<StepRecord> Latest() const;

  // Finds a step and holds all versions that it needs, in one go.
  absl::StatusOr<HeldStep> HoldStep(int64_t step);
  absl::StatusOr<HeldChain> HoldChain(int64_t step, HeldBy by);
  // The same for the versions that `plan` returns.
  using PlanVersions =
      absl::FunctionRef<absl::StatusOr<std::vector<Version>>(const Catalog&)>;
  absl::StatusOr<std::shared_ptr<void>> Hold(HeldBy by, PlanVersions plan);
  HeldCatalog HoldAll();

  // Returns AlreadyExists when the step is there, and is not to be overwritten.
  absl::Status CheckStepAvailable(const SaveSpec& spec) const;
  // Takes the next attempt for a save. Errors as SaveSpec::parent says.
  absl::StatusOr<BegunAttempt> BeginSave(const SaveSpec& spec,
                                         int64_t begun_at_micros);
  // Returns NotFound when no save in progress is of this version.
  absl::StatusOr<SaveInProgress> FindSave(const Version& version) const;
  absl::Status EndSave(const Version& version);
  void EndAllSaves();

  // Takes the attempt of a fold of this step that was cut short, or a new one.
  // One that is in `ingested` is not taken again: its staged files are those of
  // the database, and a part that was written again would write over them.
  // Until EndFold it is not swept, even when its step is deleted. One fold at a
  // time.
  BegunAttempt BeginFold(const StepRecord& step, int64_t begun_at_micros,
                         const std::map<Version, uint64_t>& ingested);
  void EndFold();

  // The changes, each of which is durable when it is made here. A commit ends
  // its save.
  void ApplyCommit(Commit commit);
  void ApplyRecord(StepRecord record);
  // Deletes a step; its retirement is in the write-ahead log alone.
  void ApplyDeletion(const StepRecord& record);
  void ApplyUserMetadata(const UserMetadata& metadata);

  // Returns whether a deletion is in the write-ahead log alone. Returns true
  // once: the caller flushes, or gives it back.
  bool TakeUnflushed();
  void GiveBackUnflushed();
  CatalogMarks Mark() const;
  // Returns whether a save or a fold in progress, or one that can go on, has
  // its files in the staging folder of this attempt.
  bool MayStage(uint32_t attempt) const;
  // Removes the records of versions that a sweep has removed.
  void Forget(const std::vector<Version>& versions);

 private:
  void Retire(StepRecord record) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  AttemptRecord TakeAttempt(int64_t step, int64_t begun_at_micros,
                            uint32_t folds)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Returns whether the attempt is a fold that can go on, as its step is the
  // same.
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
