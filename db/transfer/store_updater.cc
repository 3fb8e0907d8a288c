// SPDX-License-Identifier: Apache-2.0
#include "db/transfer/store_updater.h"

#include <rocksdb/sst_file_reader.h>
#include <sys/stat.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "db/base/hit_crash_point.h"
#include "db/base/home_process.h"
#include "db/base/paths.h"
#include "db/disk/copy_file.h"
#include "db/disk/environment.h"
#include "db/disk/files.h"
#include "db/disk/rocks_status.h"
#include "db/disk/store_path.h"
#include "db/internal/crash_points.h"
#include "db/meta/catalog.h"
#include "db/rocks/database.h"
#include "db/store.h"
#include "db/store/store_folder.h"
#include "db/store/store_snapshot.h"
#include "db/transfer/unfinished_folder.h"
#include "db/transfer/version_records.h"
#include "schema/bytes/annotate.h"
#include "schema/bytes/keys.h"
#include "schema/records/branches.h"
#include "schema/status.h"

namespace ckptdb::internal {
namespace {

// New files get the modes of the store's files, so that the same users can read
// them.
StoreOptions OptionsToUpdate(const std::string& store) {
  const FileModes modes = ModesOfStore(store);
  StoreOptions options;
  options.create_if_missing = false;
  options.background_sweep = false;
  options.directory_mode = modes.directory;
  options.file_mode = modes.file;
  return options;
}

// An owner's commit clears the time at which the attempt began; a fetch leaves
// it set.
bool IsFetched(const Catalog& records, const Version& version) {
  const auto attempt = records.attempts.find(version.attempt);
  return attempt != records.attempts.end() &&
         attempt->second.begun_at_micros != 0;
}

absl::StatusOr<std::string> EvaluationsOf(const Database& database,
                                          const Version& version) {
  std::string entries;
  CKPTDB_RETURN_IF_ERROR(
      database.ForEach(Family::kMeta, EvaluationKeyPrefix(version),
                       [&](absl::string_view key, absl::string_view value) {
                         absl::StrAppend(&entries, key, value);
                         return absl::OkStatus();
                       }));
  return entries;
}

absl::StatusOr<LocalStore> StoreOf(const std::string& path,
                                   const Catalog& records,
                                   const Database& database) {
  LocalStore store;
  store.path = path;
  store.root = records.root;
  std::map<Version, LocalVersion> versions;
  for (const auto& [version, record] : records.retired) {
    versions[version].record = record;
  }
  for (const auto& [step, record] : records.steps) {
    LocalVersion& local = versions[record.version];
    local.record = record;
    local.is_step = true;
    CKPTDB_ASSIGN_OR_RETURN(local.evaluations,
                            EvaluationsOf(database, record.version));
  }
  for (auto& [version, local] : versions) {
    local.saved_here = !IsFetched(records, version);
    store.versions.push_back(std::move(local));
  }
  for (const auto& [number, attempt] : records.attempts) {
    store.attempts.push_back(attempt);
  }
  return store;
}

// Whether a process died before it committed an attempt. Folds are resumed.
bool HasUncommitted(const Catalog& records) {
  return std::any_of(records.attempts.begin(), records.attempts.end(),
                     [](const auto& entry) {
                       return entry.second.state == AttemptState::kBegun &&
                              entry.second.folds == 0;
                     });
}

// Returns DataLoss unless all entries of a table are those of the version.
absl::Status CheckTable(const std::string& path, const Version& version) {
  rocksdb::SstFileReader table((rocksdb::Options()));
  CKPTDB_RETURN_IF_ERROR(FromRocksRead(table.Open(path), path));
  const std::unique_ptr<rocksdb::Iterator> entries(
      table.NewIterator(rocksdb::ReadOptions()));
  std::vector<std::string> ends;
  entries->SeekToFirst();
  if (entries->Valid()) ends.push_back(entries->key().ToString());
  entries->SeekToLast();
  if (entries->Valid()) ends.push_back(entries->key().ToString());
  CKPTDB_RETURN_IF_ERROR(FromRocksRead(entries->status(), path));
  for (const std::string& key : ends) {
    CKPTDB_ASSIGN_OR_RETURN(const Version found, ParseVersionPrefix(key));
    if (found == version) continue;
    return absl::DataLossError(absl::StrCat("a data file has entries of ",
                                            ToString(found), ", expected ",
                                            ToString(version)));
  }
  return absl::OkStatus();
}

class UpdaterOfFolder : public StoreUpdater {
 public:
  UpdaterOfFolder(std::string path, OnPoint on_point)
      : path_(std::move(path)), on_point_(std::move(on_point)) {}

  absl::Status Open();
  const LocalStore& store() const override { return store_; }
  const std::string& downloads() const override {
    return unfinished_->downloads();
  }
  bool HasFile(const RemoteFile& file) const override;
  absl::Status Add(const std::vector<AddedVersion>& versions,
                   const RootRecord& root) override;
  absl::Status Revise(const std::vector<AddedVersion>& versions) override;
  absl::Status Close() override;

 private:
  absl::StatusOr<Catalog> OpenFolder();
  absl::Status SweepUncommitted();
  absl::Status Check(const std::vector<AddedVersion>& versions) const;
  RootRecord RootWith(const std::vector<AddedVersion>& versions,
                      const RootRecord& root) const;
  absl::StatusOr<std::map<uint32_t, uint64_t>> OwnersWith(
      const std::vector<AddedVersion>& versions, const RootRecord& root,
      uint32_t next_attempt) const;
  absl::Status BeginAttempts(const std::vector<AddedVersion>& versions,
                             const RootRecord& root);
  absl::Status Ingest(const std::vector<AddedVersion>& versions);
  absl::Status Commit(const std::vector<AddedVersion>& versions,
                      const RootRecord& root);
  absl::Status RetireReplaced(const StepRecord& record,
                              ChangeBatch* batch) const;
  bool IsPinned(int64_t step) const;
  absl::Status PutPinned(StepRecord record, ChangeBatch* batch) const;
  absl::Status Apply(const AddedVersion& added);
  absl::Status Reload();
  absl::Status Hit(absl::string_view point) const {
    return HitCrashPoint(on_point_, "FetchOptions::on_point", point);
  }

  const std::string path_;
  const OnPoint on_point_;
  std::unique_ptr<UnfinishedFolder> unfinished_;
  std::unique_ptr<StoreFolder> folder_;
  LocalStore store_;
};

absl::StatusOr<Catalog> UpdaterOfFolder::OpenFolder() {
  CKPTDB_ASSIGN_OR_RETURN(StoreFolder::Opened opened,
                          StoreFolder::Open(path_, OptionsToUpdate(path_)));
  folder_ = std::move(opened.folder);
  return std::move(opened.records);
}

// Removes entries that an interrupted call or a trainer ingested but did not
// commit, because adding the same versions would collide with them.
absl::Status UpdaterOfFolder::SweepUncommitted() {
  CKPTDB_RETURN_IF_ERROR(folder_->Close());
  folder_.reset();
  CKPTDB_ASSIGN_OR_RETURN(const auto store,
                          Store::Open(path_, OptionsToUpdate(path_)));
  CKPTDB_RETURN_IF_ERROR(store->Sweep().status());
  return store->Close();
}

absl::Status UpdaterOfFolder::Open() {
  CKPTDB_ASSIGN_OR_RETURN(Catalog records, OpenFolder());
  if (HasUncommitted(records)) {
    CKPTDB_RETURN_IF_ERROR(SweepUncommitted());
    CKPTDB_ASSIGN_OR_RETURN(records, OpenFolder());
  }
  CKPTDB_ASSIGN_OR_RETURN(store_, StoreOf(path_, records, folder_->database()));
  CKPTDB_ASSIGN_OR_RETURN(unfinished_, UnfinishedFolder::Take(path_));
  return RemoveTree(unfinished_->files(),
                    absl::StrCat(unfinished_->path(), "/", kLinksName));
}

bool UpdaterOfFolder::HasFile(const RemoteFile& file) const {
  const CorruptTables& corrupt = folder_->database().corrupt_tables();
  const auto files = folder_->database().FilesOf(Family::kBulk);
  return std::any_of(
      files.begin(), files.end(), [&](const rocksdb::LiveFileMetaData& has) {
        const std::string& path = has.relative_filename;
        return has.smallestkey == file.first_key &&
               has.largestkey == file.last_key && has.size == file.bytes &&
               !corrupt.contains(path.substr(path.rfind('/') + 1));
      });
}

// Checks records, tables and disk space before anything is changed.
absl::Status UpdaterOfFolder::Check(
    const std::vector<AddedVersion>& versions) const {
  constexpr uint64_t kCopies = 3;  // see Committer::CheckDiskSpace
  uint64_t bytes = kBatchOverhead;
  for (const AddedVersion& added : versions) {
    CKPTDB_RETURN_IF_ERROR(
        CheckedRecord(added.version, *added.records).status());
    for (const std::string& table : added.tables) {
      CKPTDB_RETURN_IF_ERROR(CheckTable(table, added.version));
    }
    bytes += kCopies * added.records->step_record.size();
    for (const std::string& rank : added.records->rank_records) {
      bytes += kCopies * rank.size();
    }
    for (const auto& [key, value] : added.records->inline_entries) {
      bytes += kCopies * (key.size() + value.size());
    }
  }
  return folder_->CheckSaveSpace(bytes);
}

// Returns the root without the versions' owners, as a killed call leaves it.
RootRecord UpdaterOfFolder::RootWith(const std::vector<AddedVersion>& versions,
                                     const RootRecord& root) const {
  RootRecord own = store_.root;
  own.user_metadata = root.user_metadata;
  own.next_attempt = std::max(own.next_attempt, root.next_attempt);
  for (const AddedVersion& added : versions) {
    own.next_attempt = std::max(own.next_attempt, added.version.attempt + 1);
  }
  return own;
}

// All steps are the remote's, so its owners began them and the abandoned ones
// in between. The store may lack steps of the remote that are newer.
absl::StatusOr<std::map<uint32_t, uint64_t>> UpdaterOfFolder::OwnersWith(
    const std::vector<AddedVersion>& versions, const RootRecord& root,
    uint32_t next_attempt) const {
  uint32_t newest = 0;
  for (const LocalVersion& local : store_.versions) {
    if (local.is_step) newest = std::max(newest, StateOf(local.record).attempt);
  }
  for (const AddedVersion& added : versions) {
    if (!added.is_step) continue;
    CKPTDB_ASSIGN_OR_RETURN(const StepRecord record,
                            CheckedRecord(added.version, *added.records));
    newest = std::max(newest, StateOf(record).attempt);
  }
  std::map<uint32_t, uint64_t> owners = root.owners;
  AddOwner(newest + 1, kForeignOwner, &owners);
  AddOwner(next_attempt, folder_->owner_id(), &owners);
  return owners;
}

// Records the attempts before their data is written, as a save does: a sweep
// finds data only by an attempt record.
absl::Status UpdaterOfFolder::BeginAttempts(
    const std::vector<AddedVersion>& versions, const RootRecord& root) {
  Database& database = folder_->database();
  ChangeBatch batch;
  CKPTDB_RETURN_IF_ERROR(PutRoot(database, root, &batch));
  for (const AddedVersion& added : versions) {
    if (store_.Find(added.version) != nullptr) continue;
    AttemptRecord attempt;
    attempt.version = added.version;
    attempt.begun_at_micros = folder_->NowMicros();
    CKPTDB_ASSIGN_OR_RETURN(const std::string bytes,
                            EncodeAttemptRecord(attempt));
    CKPTDB_RETURN_IF_ERROR(
        FromRocks(batch.Put(database.family(Family::kMeta),
                            AttemptKey(added.version.attempt), bytes),
                  "attempt record"));
  }
  return database.Write(&batch, /*sync=*/true);
}

// Ingests hard links to the files, because an ingestion removes the names that
// it is given.
absl::Status UpdaterOfFolder::Ingest(
    const std::vector<AddedVersion>& versions) {
  GuardedFileSystem* const files = unfinished_->files();
  const std::string links = absl::StrCat(unfinished_->path(), "/", kLinksName);
  CKPTDB_RETURN_IF_ERROR(MakeFolders(files, links));
  std::vector<std::string> tables;
  for (const AddedVersion& added : versions) {
    for (const std::string& table : added.tables) {
      // A failure affects only other users, who then cannot read the file.
      static_cast<void>(::chmod(table.c_str(), folder_->options().file_mode));
      const std::string link = links + table.substr(table.rfind('/'));
      const bool linked = LinkFile(files, table, link).ok();
      tables.push_back(linked ? link : table);
    }
  }
  if (tables.empty()) return absl::OkStatus();
  Database& database = folder_->database();
  for (const AddedVersion& added : versions) {
    if (added.tables.empty()) continue;
    CKPTDB_RETURN_IF_ERROR(
        Annotate(database.PrepareIngest(VersionPrefix(added.version)), path_));
  }
  return Annotate(database.Ingest(tables), path_);
}

// The version that a step replaces is no longer a step.
absl::Status UpdaterOfFolder::RetireReplaced(const StepRecord& record,
                                             ChangeBatch* batch) const {
  const LocalVersion* const before = store_.FindStep(record.version.step);
  if (before == nullptr || before->record.version == record.version) {
    return absl::OkStatus();
  }
  const Version& version = before->record.version;
  CKPTDB_ASSIGN_OR_RETURN(
      const std::string attempt,
      EncodeAttemptRecord({version, AttemptState::kRetired, 0}));
  CKPTDB_ASSIGN_OR_RETURN(const std::string step,
                          EncodeStepRecord(before->record));
  rocksdb::ColumnFamilyHandle* const meta =
      folder_->database().family(Family::kMeta);
  rocksdb::Status put =
      batch->Put(meta, AttemptKey(version.attempt), ToSlice(attempt));
  if (put.ok()) put = batch->Put(meta, RetiredKey(version), ToSlice(step));
  return FromRocks(put, "retiring a step");
}

bool UpdaterOfFolder::IsPinned(int64_t step) const {
  const LocalVersion* const before = store_.FindStep(step);
  return before != nullptr && before->record.pinned;
}

// A step that was folded elsewhere stays pinned here.
absl::Status UpdaterOfFolder::PutPinned(StepRecord record,
                                        ChangeBatch* batch) const {
  record.pinned = true;
  CKPTDB_ASSIGN_OR_RETURN(const std::string bytes, EncodeStepRecord(record));
  return FromRocks(batch->Put(folder_->database().family(Family::kMeta),
                              StepKey(record.version.step), ToSlice(bytes)),
                   "step record");
}

// The commit point: one batch that is synced, and then flushed from the log.
absl::Status UpdaterOfFolder::Commit(const std::vector<AddedVersion>& versions,
                                     const RootRecord& root) {
  Database& database = folder_->database();
  ChangeBatch batch;
  for (const AddedVersion& added : versions) {
    CKPTDB_ASSIGN_OR_RETURN(const StepRecord record,
                            CheckedRecord(added.version, *added.records));
    if (added.is_step) {
      CKPTDB_RETURN_IF_ERROR(RetireReplaced(record, &batch));
      CKPTDB_RETURN_IF_ERROR(
          FromRocks(batch.Delete(database.family(Family::kMeta),
                                 RetiredKey(added.version)),
                    "step record"));
    }
    CKPTDB_RETURN_IF_ERROR(
        PutVersion(database, record, *added.records, added.is_step, &batch));
    if (added.is_step && !record.pinned && IsPinned(record.version.step)) {
      CKPTDB_RETURN_IF_ERROR(PutPinned(record, &batch));
    }
  }
  CKPTDB_RETURN_IF_ERROR(PutRoot(database, root, &batch));
  CKPTDB_RETURN_IF_ERROR(database.Write(&batch, /*sync=*/true));
  CKPTDB_RETURN_IF_ERROR(Hit(point::kFetchCommitted));
  CKPTDB_RETURN_IF_ERROR(database.Flush({Family::kMeta, Family::kInline}));
  database.NoteWatermark();
  return absl::OkStatus();
}

absl::Status UpdaterOfFolder::Add(const std::vector<AddedVersion>& versions,
                                  const RootRecord& root) {
  CKPTDB_RETURN_IF_ERROR(Check(versions));
  RootRecord own = RootWith(versions, root);
  CKPTDB_RETURN_IF_ERROR(BeginAttempts(versions, own));
  CKPTDB_RETURN_IF_ERROR(Hit(point::kFetchBegun));
  CKPTDB_RETURN_IF_ERROR(Ingest(versions));
  CKPTDB_RETURN_IF_ERROR(Hit(point::kFetchIngested));
  CKPTDB_ASSIGN_OR_RETURN(own.owners,
                          OwnersWith(versions, root, own.next_attempt));
  CKPTDB_RETURN_IF_ERROR(Commit(versions, own));
  store_.root = own;
  for (const AddedVersion& added : versions) {
    CKPTDB_RETURN_IF_ERROR(Apply(added));
  }
  return absl::OkStatus();
}

// Applies what Commit has written to `store_`. Reading all records again after
// each of many steps would take longer than adding them.
absl::Status UpdaterOfFolder::Apply(const AddedVersion& added) {
  LocalVersion local;
  local.is_step = added.is_step;
  CKPTDB_ASSIGN_OR_RETURN(local.record,
                          CheckedRecord(added.version, *added.records));
  if (added.is_step) {
    local.record.pinned |= IsPinned(added.version.step);
    for (const auto& [key, value] : added.records->evaluations) {
      absl::StrAppend(&local.evaluations, key, value);
    }
    for (LocalVersion& other : store_.versions) {
      if (other.record.version.step == added.version.step) {
        other.is_step = false;
      }
    }
  }
  const auto place = std::lower_bound(
      store_.versions.begin(), store_.versions.end(), added.version,
      [](const LocalVersion& one, const Version& version) {
        return one.record.version < version;
      });
  if (place != store_.versions.end() &&
      place->record.version == added.version) {
    *place = std::move(local);
  } else {
    store_.versions.insert(place, std::move(local));
  }
  return absl::OkStatus();
}

absl::Status UpdaterOfFolder::Revise(
    const std::vector<AddedVersion>& versions) {
  rocksdb::ColumnFamilyHandle* const meta =
      folder_->database().family(Family::kMeta);
  ChangeBatch batch;
  rocksdb::Status put;
  for (const AddedVersion& added : versions) {
    CKPTDB_ASSIGN_OR_RETURN(StepRecord record,
                            CheckedRecord(added.version, *added.records));
    const LocalVersion* const own = store_.Find(added.version);
    if (own == nullptr || !own->is_step) continue;
    CKPTDB_ASSIGN_OR_RETURN(
        const std::string bytes,
        EncodeStepRecord(RevisedRecord(own->record, std::move(record))));
    put = batch.Put(meta, StepKey(added.version.step), ToSlice(bytes));
    for (const auto& [key, value] : added.records->evaluations) {
      if (put.ok()) put = batch.Put(meta, key, ToSlice(value));
    }
    CKPTDB_RETURN_IF_ERROR(FromRocks(put, "step record"));
  }
  CKPTDB_RETURN_IF_ERROR(folder_->CheckDiskSpaceFor(batch));
  CKPTDB_RETURN_IF_ERROR(folder_->WriteDurably(&batch));
  return Reload();
}

absl::Status UpdaterOfFolder::Reload() {
  CKPTDB_ASSIGN_OR_RETURN(const Catalog records,
                          LoadCatalog(folder_->database()));
  CKPTDB_ASSIGN_OR_RETURN(store_, StoreOf(path_, records, folder_->database()));
  return absl::OkStatus();
}

absl::Status UpdaterOfFolder::Close() {
  CKPTDB_RETURN_IF_ERROR(folder_->Close());
  return unfinished_->Remove();
}

}  // namespace

const LocalVersion* LocalStore::Find(const Version& version) const {
  const auto found =
      std::lower_bound(versions.begin(), versions.end(), version,
                       [](const LocalVersion& local, const Version& wanted) {
                         return local.record.version < wanted;
                       });
  const bool has = found != versions.end() && found->record.version == version;
  return has ? &*found : nullptr;
}

const LocalVersion* LocalStore::FindStep(int64_t step) const {
  const auto found = std::find_if(
      versions.begin(), versions.end(), [&](const LocalVersion& local) {
        return local.is_step && local.record.version.step == step;
      });
  return found == versions.end() ? nullptr : &*found;
}

absl::StatusOr<LocalStore> ReadLocalStore(absl::string_view path) {
  CKPTDB_RETURN_IF_ERROR(EnterLibrary("ReadLocalStore"));
  CKPTDB_ASSIGN_OR_RETURN(const std::string resolved, ResolveStorePath(path));
  CKPTDB_ASSIGN_OR_RETURN(
      const auto database,
      Database::OpenFollower(resolved, *Environment::Default(), true));
  CKPTDB_ASSIGN_OR_RETURN(const Catalog records, LoadCatalog(*database));
  return StoreOf(resolved, records, *database);
}

absl::StatusOr<std::unique_ptr<StoreUpdater>> StoreUpdater::Open(
    absl::string_view path, OnPoint on_point) {
  CKPTDB_RETURN_IF_ERROR(EnterLibrary("StoreUpdater::Open"));
  CKPTDB_ASSIGN_OR_RETURN(std::string resolved, ResolveStorePath(path));
  auto updater = std::make_unique<UpdaterOfFolder>(std::move(resolved),
                                                   std::move(on_point));
  CKPTDB_RETURN_IF_ERROR(updater->Open());
  return updater;
}

StepRecord RevisedRecord(const StepRecord& own, StepRecord newer) {
  newer.pinned = own.pinned;
  newer.quarantined = newer.quarantined || own.quarantined;
  for (const auto& [name, value] : own.metrics) {
    newer.metrics.emplace(name, value);
  }
  return newer;
}

absl::Status RemoveUnfinished(absl::string_view path) {
  CKPTDB_ASSIGN_OR_RETURN(const std::string resolved, ResolveStorePath(path));
  return UnfinishedFolder::RemoveLeftover(resolved);
}

std::vector<int64_t> StepsBeyond(std::vector<StepRecord> steps, uint64_t keep) {
  std::sort(steps.begin(), steps.end(),
            [](const StepRecord& a, const StepRecord& b) {
              return StateOf(a).attempt > StateOf(b).attempt;
            });
  std::vector<int64_t> beyond;
  uint64_t usable = 0;
  for (const StepRecord& step : steps) {
    if (usable == keep && !step.pinned) beyond.push_back(step.version.step);
    if (usable < keep && !step.quarantined) ++usable;
  }
  std::sort(beyond.begin(), beyond.end());
  return beyond;
}

absl::StatusOr<std::vector<int64_t>> KeepNewestSteps(
    absl::string_view path, uint64_t keep,
    const StoreUpdater::OnPoint& on_point) {
  CKPTDB_ASSIGN_OR_RETURN(const std::string resolved, ResolveStorePath(path));
  CKPTDB_ASSIGN_OR_RETURN(const auto store,
                          Store::Open(resolved, OptionsToUpdate(resolved)));
  const std::vector<int64_t> beyond = StepsBeyond(store->Steps(), keep);
  for (const int64_t step : beyond) {
    CKPTDB_RETURN_IF_ERROR(store->Delete(step));
  }
  CKPTDB_RETURN_IF_ERROR(
      HitCrashPoint(on_point, "FetchOptions::on_point", point::kFetchRemoved));
  CKPTDB_RETURN_IF_ERROR(store->Sweep().status());
  CKPTDB_RETURN_IF_ERROR(store->Close());
  return beyond;
}

}  // namespace ckptdb::internal
