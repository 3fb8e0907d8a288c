// SPDX-License-Identifier: Apache-2.0
#include "db/transfer/store_builder.h"

#include <algorithm>
#include <optional>
#include <set>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "db/base/cancelled.h"
#include "db/base/home_process.h"
#include "db/disk/copy_file.h"
#include "db/disk/environment.h"
#include "db/disk/files.h"
#include "db/disk/rocks_status.h"
#include "db/disk/store_path.h"
#include "db/meta/catalog.h"
#include "db/reader.h"
#include "db/rocks/guarded_file_system.h"
#include "db/store/backup_folder.h"
#include "db/store/store_folder.h"
#include "schema/bytes/annotate.h"
#include "schema/bytes/keys.h"
#include "schema/bytes/page.h"
#include "schema/status.h"

namespace ckptdb::internal {
namespace {

// The parts of PATH.unfinished.
constexpr char kDownloads[] = "/files";
constexpr char kBuilding[] = "/store";

StoreOptions OptionsToBuild() {
  StoreOptions options;
  options.background_sweep = false;
  return options;
}

FileModes ModesToBuild() {
  const StoreOptions options;
  return {options.directory_mode, options.file_mode, /*apply=*/true};
}

absl::Status Contradiction(const Version& version, absl::string_view what) {
  return absl::DataLossError(
      absl::StrCat("the records of ", ToString(version), " ", what));
}

// Returns DataLoss unless these are the records of this version.
absl::StatusOr<StepRecord> CheckedRecord(const Version& version,
                                         const RemoteVersion& records) {
  CKPTDB_ASSIGN_OR_RETURN(StepRecord record,
                          DecodeStepRecord(records.step_record));
  if (record.version != version) {
    return Contradiction(version,
                         absl::StrCat("name ", ToString(record.version)));
  }
  if (records.rank_records.size() != record.world_size) {
    return Contradiction(version,
                         absl::StrCat("have ", records.rank_records.size(),
                                      " ranks, expected ", record.world_size));
  }
  for (uint32_t rank = 0; rank < record.world_size; ++rank) {
    if (HashBytes(records.rank_records[rank]) == record.rank_digests[rank]) {
      continue;
    }
    return Contradiction(version,
                         absl::StrCat("have a wrong hash of rank ", rank));
  }
  for (const auto& [key, value] : records.inline_entries) {
    if (absl::StartsWith(key, VersionPrefix(version))) continue;
    return Contradiction(version, "have an entry of another version");
  }
  for (const auto& [key, value] : records.evaluations) {
    if (absl::StartsWith(key, EvaluationKeyPrefix(version))) continue;
    return Contradiction(version, "have an evaluation of another version");
  }
  return record;
}

class BuilderInFolder : public StoreBuilder {
 public:
  BuilderInFolder(std::string path, FolderLock lock)
      : path_(std::move(path)),
        unfinished_(path_ + ".unfinished"),
        building_(unfinished_ + kBuilding),
        downloads_(unfinished_ + kDownloads),
        lock_(std::move(lock)),
        files_(std::make_unique<GuardedFileSystem>(
            Environment::Default()->file_system(), ModesToBuild())) {}

  absl::Status Open();
  const std::string& downloads() const override { return downloads_; }
  absl::Status Add(const Version& version, const BuiltVersion& built) override;
  absl::Status Finish(const RootRecord& root) override;

 private:
  absl::Status Put(ChangeBatch* batch, Family family, const std::string& key,
                   absl::string_view value) const;
  absl::Status PutRecords(const StepRecord& record, const BuiltVersion& built,
                          ChangeBatch* batch) const;
  absl::Status CheckFiles() const;
  absl::Status WriteRoot(RootRecord root) const;
  absl::Status CheckOpens() const;
  absl::Status MoveToPath();

  const std::string path_;
  const std::string unfinished_;
  const std::string building_;
  const std::string downloads_;
  std::optional<FolderLock> lock_;
  const std::unique_ptr<GuardedFileSystem> files_;
  std::unique_ptr<StoreFolder> folder_;
  RootRecord root_;
  std::set<Version> versions_;
  size_t steps_ = 0;
  std::vector<std::string> tables_;
};

absl::Status BuilderInFolder::Open() {
  CKPTDB_RETURN_IF_ERROR(MakeFolders(files_.get(), downloads_));
  // What an interrupted call built is built again, from the same downloads.
  CKPTDB_RETURN_IF_ERROR(RemoveTree(files_.get(), building_));
  CKPTDB_ASSIGN_OR_RETURN(StoreFolder::Opened opened,
                          StoreFolder::Open(building_, OptionsToBuild()));
  folder_ = std::move(opened.folder);
  root_ = opened.records.root;
  return absl::OkStatus();
}

absl::Status BuilderInFolder::Put(ChangeBatch* batch, Family family,
                                  const std::string& key,
                                  absl::string_view value) const {
  return FromRocks(batch->Put(folder_->database().family(family), key,
                              rocksdb::Slice(value.data(), value.size())),
                   "adding a record");
}

absl::Status BuilderInFolder::PutRecords(const StepRecord& record,
                                         const BuiltVersion& built,
                                         ChangeBatch* batch) const {
  const Version& version = record.version;
  AttemptRecord attempt;
  attempt.version = version;
  attempt.state =
      built.is_step ? AttemptState::kCommitted : AttemptState::kRetired;
  attempt.begun_at_micros = record.committed_at_micros - record.save_micros;
  CKPTDB_ASSIGN_OR_RETURN(const std::string attempt_bytes,
                          EncodeAttemptRecord(attempt));
  CKPTDB_RETURN_IF_ERROR(
      Put(batch, Family::kMeta, AttemptKey(version.attempt), attempt_bytes));
  CKPTDB_RETURN_IF_ERROR(
      Put(batch, Family::kMeta,
          built.is_step ? StepKey(version.step) : RetiredKey(version),
          built.records.step_record));
  for (uint32_t rank = 0; rank < record.world_size; ++rank) {
    CKPTDB_RETURN_IF_ERROR(Put(batch, Family::kMeta, RankKey(version, rank),
                               built.records.rank_records[rank]));
  }
  for (const auto& [key, value] : built.records.evaluations) {
    CKPTDB_RETURN_IF_ERROR(Put(batch, Family::kMeta, key, value));
  }
  for (const auto& [key, value] : built.records.inline_entries) {
    CKPTDB_RETURN_IF_ERROR(Put(batch, Family::kInline, key, value));
  }
  return absl::OkStatus();
}

// Nothing reads the store before Finish, so a version needs no batch of its
// own that is synced.
absl::Status BuilderInFolder::Add(const Version& version,
                                  const BuiltVersion& built) {
  CKPTDB_ASSIGN_OR_RETURN(const StepRecord record,
                          CheckedRecord(version, built.records));
  ChangeBatch batch;
  CKPTDB_RETURN_IF_ERROR(PutRecords(record, built, &batch));
  CKPTDB_RETURN_IF_ERROR(folder_->CheckDiskSpaceFor(batch));
  CKPTDB_RETURN_IF_ERROR(folder_->database().Write(&batch, /*sync=*/false));
  versions_.insert(version);
  if (built.is_step) ++steps_;
  tables_.insert(tables_.end(), built.paths.begin(), built.paths.end());
  return absl::OkStatus();
}

absl::Status BuilderInFolder::CheckFiles() const {
  for (const auto& file : folder_->database().FilesOf(Family::kBulk)) {
    CKPTDB_ASSIGN_OR_RETURN(const Version first,
                            ParseVersionPrefix(file.smallestkey));
    CKPTDB_ASSIGN_OR_RETURN(const Version last,
                            ParseVersionPrefix(file.largestkey));
    if (first == last && versions_.contains(first)) continue;
    return absl::DataLossError(absl::StrCat(
        "a data file has entries from ", ToString(first), " to ",
        ToString(last), ", expected those of one fetched version"));
  }
  return absl::OkStatus();
}

absl::Status BuilderInFolder::WriteRoot(RootRecord root) const {
  root.owner_epoch = root_.owner_epoch;
  for (const Version& version : versions_) {
    root.next_attempt = std::max(root.next_attempt, version.attempt + 1);
  }
  CKPTDB_ASSIGN_OR_RETURN(const std::string bytes, EncodeRootRecord(root));
  ChangeBatch batch;
  CKPTDB_RETURN_IF_ERROR(Put(&batch, Family::kMeta, RootKey(), bytes));
  // Flushes the records of all versions, too.
  CKPTDB_RETURN_IF_ERROR(folder_->WriteDurably(&batch));
  return folder_->database().Flush({Family::kInline});
}

absl::Status BuilderInFolder::CheckOpens() const {
  StoreOptions reading;
  reading.leases = StoreOptions::LeaseMode::kNone;
  CKPTDB_ASSIGN_OR_RETURN(const auto reader, Reader::Open(building_, reading));
  const std::vector<std::string> bad = reader->BadFiles();
  if (!bad.empty()) {
    return absl::DataLossError(
        absl::StrCat("\"", building_, "/db/", bad.front(), "\" is damaged"));
  }
  if (reader->Steps().size() == steps_) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat("\"", building_, "\" has ",
                                          reader->Steps().size(),
                                          " steps, expected ", steps_));
}

absl::Status BuilderInFolder::MoveToPath() {
  CKPTDB_RETURN_IF_ERROR(SyncFolder(files_.get(), building_));
  CKPTDB_RETURN_IF_ERROR(FromRocks(
      files_->RenameFile(building_, path_, rocksdb::IOOptions(), nullptr),
      absl::StrCat("naming \"", path_, "\"")));
  CKPTDB_RETURN_IF_ERROR(SyncFolder(files_.get(), ParentFolder(path_)));
  CKPTDB_RETURN_IF_ERROR(RemoveTree(files_.get(), downloads_));
  lock_.reset();
  return RemoveTree(files_.get(), unfinished_);
}

absl::Status BuilderInFolder::Finish(const RootRecord& root) {
  if (!tables_.empty()) {
    CKPTDB_RETURN_IF_ERROR(
        Annotate(folder_->database().Ingest(tables_), path_));
  }
  CKPTDB_RETURN_IF_ERROR(CheckFiles());
  CKPTDB_RETURN_IF_ERROR(WriteRoot(root));
  CKPTDB_RETURN_IF_ERROR(folder_->Close());
  CKPTDB_RETURN_IF_ERROR(CheckOpens());
  return MoveToPath();
}

absl::Status CheckIsFree(const std::string& path) {
  rocksdb::FileSystem* const files =
      Environment::Default()->file_system().get();
  const absl::StatusOr<Entry> entry = LookAt(files, path);
  if (absl::IsNotFound(entry.status())) return absl::OkStatus();
  CKPTDB_RETURN_IF_ERROR(entry.status());
  if (entry->kind == EntryKind::kFolder) {
    CKPTDB_ASSIGN_OR_RETURN(const auto names, ListFolder(files, path));
    if (names.empty()) return absl::OkStatus();
  }
  return absl::AlreadyExistsError(absl::StrCat(
      "\"", path, "\" exists and is not an empty folder; nothing was changed"));
}

}  // namespace

absl::StatusOr<std::unique_ptr<StoreBuilder>> StoreBuilder::Begin(
    absl::string_view path) {
  CKPTDB_RETURN_IF_ERROR(EnterLibrary("StoreBuilder::Begin"));
  CKPTDB_ASSIGN_OR_RETURN(const std::string resolved, ResolveStorePath(path));
  CKPTDB_RETURN_IF_ERROR(CheckIsFree(resolved));
  GuardedFileSystem files(Environment::Default()->file_system(),
                          ModesToBuild());
  const std::string unfinished = resolved + ".unfinished";
  CKPTDB_RETURN_IF_ERROR(MakeFolders(&files, unfinished));
  CKPTDB_ASSIGN_OR_RETURN(FolderLock lock, FolderLock::Take(unfinished));
  auto builder = std::make_unique<BuilderInFolder>(resolved, std::move(lock));
  CKPTDB_RETURN_IF_ERROR(builder->Open());
  return builder;
}

absl::StatusOr<uint64_t> HashOfFile(const std::string& path,
                                    const std::function<bool()>& cancelled) {
  CKPTDB_ASSIGN_OR_RETURN(
      const CopiedBytes read,
      HashFile(Environment::Default()->file_system().get(), path,
               [&](uint64_t) { return CheckCancelled(cancelled); }));
  return read.hash;
}

}  // namespace ckptdb::internal
