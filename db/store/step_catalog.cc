// SPDX-License-Identifier: Apache-2.0
#include "db/store/step_catalog.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "db/meta/lineage.h"
#include "db/store/save_checks.h"
#include "schema/bytes/annotate.h"
#include "schema/records/records.h"
#include "schema/status.h"

namespace ckptdb::internal {
namespace {

// Returns whether the attempt is an uncommitted fold of the step's version. A
// step that was overwritten or folded has another attempt, and the files staged
// for the old one are garbage.
bool IsFoldOf(const AttemptRecord& attempt, const StepRecord& step) {
  return attempt.state == AttemptState::kBegun &&
         attempt.version.step == step.version.step &&
         attempt.folds == step.version.attempt;
}

}  // namespace

absl::StatusOr<StepRecord> StepCatalog::FindStep(int64_t step) const {
  const MutexLock lock(&mutex_);
  return Annotate(records_.FindStep(step), path_);
}

absl::StatusOr<StepRecord> StepCatalog::Latest() const {
  const MutexLock lock(&mutex_);
  return Annotate(records_.Latest(), path_);
}

// The hold is taken under the lock that the record is read under, so no sweep
// can intervene.
absl::StatusOr<HeldStep> StepCatalog::HoldStep(int64_t step) {
  HeldStep held;
  CKPTDB_ASSIGN_OR_RETURN(
      held.hold,
      Hold(HeldBy::kCall,
           [&](const Catalog& records) -> absl::StatusOr<std::vector<Version>> {
             CKPTDB_ASSIGN_OR_RETURN(held.record, records.FindStep(step));
             return VersionsOf(held.record);
           }));
  return held;
}

absl::StatusOr<HeldChain> StepCatalog::HoldChain(int64_t step, HeldBy by) {
  HeldChain held;
  CKPTDB_ASSIGN_OR_RETURN(
      held.hold,
      Hold(by,
           [&](const Catalog& records) -> absl::StatusOr<std::vector<Version>> {
             CKPTDB_ASSIGN_OR_RETURN(const StepRecord record,
                                     records.FindStep(step));
             CKPTDB_ASSIGN_OR_RETURN(held.chain, ChainOf(records, record));
             return VersionsOf(record);
           }));
  return held;
}

// The versions are found and held under one lock. A sweep that marks later sees
// the hold; one that marked earlier has seen the step.
absl::StatusOr<std::shared_ptr<void>> StepCatalog::Hold(HeldBy by,
                                                        PlanVersions plan) {
  const MutexLock lock(&mutex_);
  CKPTDB_ASSIGN_OR_RETURN(std::vector<Version> versions,
                          Annotate(plan(records_), path_));
  return holds_->Hold(std::move(versions), by);
}

HeldCatalog StepCatalog::HoldAll() {
  HeldCatalog held;
  const MutexLock lock(&mutex_);
  held.records = records_;
  // The caller reads the records of needed versions after the lock is released;
  // the hold keeps them until then.
  std::set<Version> needed;
  for (const auto& [step, record] : records_.steps) {
    const std::vector<Version> versions = VersionsOf(record);
    needed.insert(versions.begin(), versions.end());
  }
  held.hold = holds_->Hold({needed.begin(), needed.end()});
  for (const auto& [attempt, save] : saves_) held.in_progress.insert(attempt);
  for (const auto& [attempt, record] : records_.attempts) {
    if (CanFold(record)) held.in_progress.insert(attempt);
  }
  return held;
}

absl::Status StepCatalog::CheckStepAvailable(const SaveSpec& spec) const {
  const MutexLock lock(&mutex_);
  const auto found = records_.steps.find(spec.step);
  if (found == records_.steps.end()) return absl::OkStatus();
  // A pin protects only a readable step. A quarantined step can be replaced,
  // and its replacement is pinned.
  if (spec.overwrite && found->second.pinned && !found->second.quarantined) {
    return Annotate(PinnedError(found->second), path_);
  }
  // The commit retires an overwritten step.
  if (spec.overwrite) return absl::OkStatus();
  return absl::AlreadyExistsError(
      absl::StrCat(path_, ": step ", spec.step, " exists, as attempt ",
                   found->second.version.attempt,
                   "; set SaveSpec::overwrite to replace it"));
}

// Advances the counter in memory first, so that a number that may already be in
// the write-ahead log is never used again.
AttemptRecord StepCatalog::TakeAttempt(int64_t step, int64_t begun_at_micros,
                                       uint32_t folds) {
  AttemptRecord attempt;
  attempt.version = {step, records_.root.next_attempt++};
  attempt.begun_at_micros = begun_at_micros;
  attempt.folds = folds;
  // The attempt is listed before its record is written, so that the store never
  // holds a data file without an attempt in the catalog.
  records_.attempts[attempt.version.attempt] = attempt;
  return attempt;
}

absl::StatusOr<BegunAttempt> StepCatalog::BeginSave(const SaveSpec& spec,
                                                    int64_t begun_at_micros) {
  BegunAttempt begun;
  const MutexLock lock(&mutex_);
  CKPTDB_ASSIGN_OR_RETURN(begun.parent,
                          Annotate(FindParent(records_, spec), path_));
  // The save is in progress before its record is written, so that a concurrent
  // sweep does not remove its folder.
  begun.attempt = TakeAttempt(spec.step, begun_at_micros, /*folds=*/0);
  begun.root = records_.root;
  SaveInProgress& save = saves_[begun.attempt.version.attempt];
  save.spec = spec;
  save.begun_at_micros = begun_at_micros;
  if (begun.parent.version.attempt != 0) {
    // Stagers borrow from the parent. Retention may remove the parent
    // meanwhile, but not its data.
    save.parent_hold = holds_->Hold(VersionsOf(begun.parent));
    save.parent = begun.parent;
  }
  return begun;
}

absl::Status StepCatalog::NotInProgress(const Version& version) const {
  return absl::NotFoundError(
      absl::StrCat(path_, ": ", ToString(version),
                   " is not a save in progress; it was published or abandoned, "
                   "or has not begun"));
}

absl::StatusOr<SaveInProgress> StepCatalog::FindSave(
    const Version& version) const {
  const MutexLock lock(&mutex_);
  const auto found = saves_.find(version.attempt);
  if (found == saves_.end() || found->second.spec.step != version.step) {
    return NotInProgress(version);
  }
  return found->second;
}

absl::Status StepCatalog::EndSave(const Version& version) {
  SaveInProgress ended;  // destroyed after the lock is released
  const MutexLock lock(&mutex_);
  const auto found = saves_.find(version.attempt);
  if (found == saves_.end() || found->second.spec.step != version.step) {
    return NotInProgress(version);
  }
  ended = std::move(found->second);
  saves_.erase(found);
  return absl::OkStatus();
}

void StepCatalog::EndAllSaves() {
  // Destroyed after the lock is released.
  std::map<uint32_t, SaveInProgress> ended;
  const MutexLock lock(&mutex_);
  ended.swap(saves_);
}

BegunAttempt StepCatalog::BeginFold(
    const StepRecord& step, int64_t begun_at_micros,
    const std::map<Version, uint64_t>& ingested) {
  BegunAttempt begun;
  const MutexLock lock(&mutex_);
  for (const auto& [number, record] : records_.attempts) {
    // An interrupted fold of the same version is resumed, unless its files are
    // already ingested.
    if (!IsFoldOf(record, step) || ingested.contains(record.version)) continue;
    // The step may be deleted during the fold; until EndFold this protects the
    // fold's files.
    folding_ = record.version;
    begun.attempt = record;
    begun.root = records_.root;
    return begun;
  }
  begun.attempt =
      TakeAttempt(step.version.step, begun_at_micros, step.version.attempt);
  begun.root = records_.root;
  folding_ = begun.attempt.version;
  return begun;
}

void StepCatalog::EndFold() {
  const MutexLock lock(&mutex_);
  folding_.reset();
}

// The record moves to the retired versions, where chains find it, until a sweep
// forgets it.
void StepCatalog::Retire(StepRecord record) {
  const Version version = record.version;
  records_.attempts[version.attempt].state = AttemptState::kRetired;
  records_.retired.insert_or_assign(version, std::move(record));
}

void StepCatalog::ApplyCommit(Commit commit) {
  const Version version = commit.step.version;
  SaveInProgress ended;  // destroyed after the lock is released
  const MutexLock lock(&mutex_);
  for (const int64_t step : commit.removed_steps) records_.EraseStep(step);
  for (StepRecord& retired : commit.retired) Retire(std::move(retired));
  // Memory changes atomically, as the disk did: no reader sees the new step
  // together with a step that it retired.
  records_.attempts[version.attempt] = {version, AttemptState::kCommitted, 0};
  records_.PutStep(std::move(commit.step));
  const auto save = saves_.find(version.attempt);
  if (save == saves_.end()) return;  // a fold
  ended = std::move(save->second);
  saves_.erase(save);
}

void StepCatalog::ApplyRecord(StepRecord record) {
  const MutexLock lock(&mutex_);
  records_.PutStep(std::move(record));
}

void StepCatalog::ApplyDeletion(const StepRecord& record) {
  const MutexLock lock(&mutex_);
  records_.EraseStep(record.version.step);
  Retire(record);
  // Set under the same lock as the retirement: a sweep that finds the version
  // retired also finds that it must flush.
  unflushed_ = true;
}

void StepCatalog::ApplyUserMetadata(const UserMetadata& metadata) {
  const MutexLock lock(&mutex_);
  records_.root.user_metadata = metadata;
}

// The flag is cleared before the flush, so a deletion during the flush sets it
// again.
bool StepCatalog::TakeUnflushed() {
  const MutexLock lock(&mutex_);
  return std::exchange(unflushed_, false);
}

void StepCatalog::GiveBackUnflushed() {
  const MutexLock lock(&mutex_);
  unflushed_ = true;
}

bool StepCatalog::CanFold(const AttemptRecord& attempt) const {
  const auto step = records_.steps.find(attempt.version.step);
  return step != records_.steps.end() && IsFoldOf(attempt, step->second);
}

// Clears the folded version in the in-memory record, which makes it an ordinary
// failed attempt. A sweep later removes the record on disk.
void StepCatalog::AbandonFolds(const std::map<Version, uint64_t>& ingested) {
  const MutexLock lock(&mutex_);
  uint32_t newest = 0;
  for (const auto& [step, record] : records_.steps) {
    newest = std::max(newest, StateOf(record).attempt);
  }
  for (auto& [attempt, record] : records_.attempts) {
    if (record.state != AttemptState::kBegun) continue;
    if (folding_ == record.version) continue;
    if (attempt < newest || ingested.contains(record.version)) record.folds = 0;
  }
}

CatalogMarks StepCatalog::Mark() const {
  CatalogMarks marks;
  const MutexLock lock(&mutex_);
  for (const auto& [step, record] : records_.steps) {
    marks.whole.insert(record.version);
  }
  for (const auto& [attempt, save] : saves_) {
    marks.whole.insert({save.spec.step, attempt});
  }
  if (folding_.has_value()) marks.whole.insert(*folding_);
  for (const auto& [attempt, record] : records_.attempts) {
    if (CanFold(record)) marks.whole.insert(record.version);
  }
  // The holds are read under the lock of the records. A hold taken later is on
  // versions that a step needs, which are marked, or on versions newer than all
  // of these attempts.
  marks.held = holds_->versions();
  marks.attempts = records_.attempts;
  for (const auto& [step, record] : records_.steps) {
    const std::vector<Version> needed = VersionsOf(record);
    const auto whole = [&](const Version& version) {
      return marks.whole.contains(version);
    };
    // A full step needs only itself. Other steps need parts of versions, which
    // the sweep finds from their records.
    if (!std::all_of(needed.begin(), needed.end(), whole)) {
      marks.borrowers.push_back(record);
    }
  }
  return marks;
}

bool StepCatalog::MayStage(uint32_t attempt) const {
  const MutexLock lock(&mutex_);
  if (saves_.contains(attempt)) return true;
  if (folding_.has_value() && folding_->attempt == attempt) return true;
  const auto found = records_.attempts.find(attempt);
  return found != records_.attempts.end() && CanFold(found->second);
}

void StepCatalog::Forget(const std::vector<Version>& versions) {
  const MutexLock lock(&mutex_);
  for (const Version& version : versions) {
    records_.attempts.erase(version.attempt);
    records_.retired.erase(version);
  }
}

}  // namespace ckptdb::internal
