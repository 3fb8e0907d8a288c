// SPDX-License-Identifier: Apache-2.0
#include "db/transfer/store_builder.h"

#include <algorithm>
#include <memory>
#include <set>
#include <utility>

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
#include "db/rocks/owner_lock.h"
#include "db/store/store_folder.h"
#include "db/store/store_names.h"
#include "db/transfer/unfinished_folder.h"
#include "db/transfer/version_records.h"
#include "schema/bytes/annotate.h"
#include "schema/bytes/keys.h"
#include "schema/records/branches.h"
#include "schema/status.h"

namespace ckptdb::internal {
namespace {

StoreOptions OptionsToBuild() {
  StoreOptions options;
  options.background_sweep = false;
  return options;
}

class BuilderInFolder : public StoreBuilder {
 public:
  // `replaced` is the lock of the store at `path`, or null without one.
  BuilderInFolder(std::string path, std::shared_ptr<OwnerLock> replaced,
                  std::unique_ptr<UnfinishedFolder> unfinished)
      : path_(std::move(path)),
        replaced_(std::move(replaced)),
        unfinished_(std::move(unfinished)),
        building_(absl::StrCat(unfinished_->path(), "/", kBuildingName)) {}

  absl::Status Open();
  const std::string& downloads() const override {
    return unfinished_->downloads();
  }
  absl::Status Add(const Version& version, const RemoteVersion& records,
                   bool is_step) override;
  absl::Status Finish(const RootRecord& root,
                      const std::vector<std::string>& tables) override;

 private:
  absl::Status CheckFiles() const;
  absl::Status WriteRoot(RootRecord root) const;
  absl::Status CheckOpens() const;
  absl::Status Rename(const std::string& from, const std::string& to) const;
  absl::Status MoveToPath();

  const std::string path_;
  const std::shared_ptr<OwnerLock> replaced_;
  const std::unique_ptr<UnfinishedFolder> unfinished_;
  const std::string building_;
  std::unique_ptr<StoreFolder> folder_;
  RootRecord root_;
  std::set<Version> versions_;
  size_t steps_ = 0;
  uint32_t newest_ = 0;  // the last attempt that made a step's state
};

absl::Status BuilderInFolder::Open() {
  // A store that an interrupted call began is built again, from its downloads.
  CKPTDB_RETURN_IF_ERROR(RemoveTree(unfinished_->files(), building_));
  CKPTDB_ASSIGN_OR_RETURN(StoreFolder::Opened opened,
                          StoreFolder::Open(building_, OptionsToBuild()));
  folder_ = std::move(opened.folder);
  root_ = opened.records.root;
  return absl::OkStatus();
}

// Nothing reads the store before Finish, so a version needs no batch of its
// own that is synced.
absl::Status BuilderInFolder::Add(const Version& version,
                                  const RemoteVersion& records, bool is_step) {
  CKPTDB_ASSIGN_OR_RETURN(const StepRecord record,
                          CheckedRecord(version, records));
  ChangeBatch batch;
  CKPTDB_RETURN_IF_ERROR(
      PutVersion(folder_->database(), record, records, is_step, &batch));
  CKPTDB_RETURN_IF_ERROR(folder_->CheckDiskSpaceFor(batch));
  CKPTDB_RETURN_IF_ERROR(folder_->database().Write(&batch, /*sync=*/false));
  versions_.insert(version);
  if (is_step) {
    ++steps_;
    newest_ = std::max(newest_, StateOf(record).attempt);
  }
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

// The remote may have newer steps than the fetched ones.
absl::Status BuilderInFolder::WriteRoot(RootRecord root) const {
  AddOwner(newest_ + 1, kForeignOwner, &root.owners);
  root.owner_epoch = root_.owner_epoch;
  for (const Version& version : versions_) {
    root.next_attempt = std::max(root.next_attempt, version.attempt + 1);
  }
  ChangeBatch batch;
  CKPTDB_RETURN_IF_ERROR(PutRoot(folder_->database(), root, &batch));
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

absl::Status BuilderInFolder::Rename(const std::string& from,
                                     const std::string& to) const {
  return FromRocks(
      unfinished_->files()->RenameFile(from, to, rocksdb::IOOptions(), nullptr),
      absl::StrCat("naming \"", to, "\""));
}

// Moves a replaced store into the unfinished folder, which is deleted.
absl::Status BuilderInFolder::MoveToPath() {
  absl::Status moved = replaced_ == nullptr ? absl::UnimplementedError("")
                                            : ExchangeFolders(building_, path_);
  if (absl::IsUnimplemented(moved)) {
    const std::string aside =
        absl::StrCat(unfinished_->path(), "/", kLinksName);
    if (replaced_ != nullptr) CKPTDB_RETURN_IF_ERROR(Rename(path_, aside));
    moved = Rename(building_, path_);
  }
  CKPTDB_RETURN_IF_ERROR(moved);
  CKPTDB_RETURN_IF_ERROR(SyncFolder(unfinished_->files(), ParentFolder(path_)));
  return unfinished_->Remove();
}

absl::Status BuilderInFolder::Finish(const RootRecord& root,
                                     const std::vector<std::string>& tables) {
  if (!tables.empty()) {
    CKPTDB_RETURN_IF_ERROR(Annotate(folder_->database().Ingest(tables), path_));
  }
  CKPTDB_RETURN_IF_ERROR(CheckFiles());
  CKPTDB_RETURN_IF_ERROR(WriteRoot(root));
  CKPTDB_RETURN_IF_ERROR(folder_->Close());
  CKPTDB_RETURN_IF_ERROR(CheckOpens());
  return MoveToPath();
}

// Returns whether `path` is an undamaged store without steps, other than store
// `uuid`.
bool IsEmptyStore(const std::string& path, absl::string_view uuid) {
  StoreOptions reading;
  reading.leases = StoreOptions::LeaseMode::kNone;
  const auto reader = Reader::Open(path, reading);
  return reader.ok() && (*reader)->Steps().empty() &&
         (*reader)->uuid() != uuid && (*reader)->BadFiles().empty();
}

// Returns the lock of a store that may be replaced, or null if the path is
// free.
absl::StatusOr<std::shared_ptr<OwnerLock>> TakePath(const std::string& path,
                                                    absl::string_view uuid) {
  const std::shared_ptr<rocksdb::FileSystem>& files =
      Environment::Default()->file_system();
  const absl::StatusOr<Entry> entry = LookAt(files.get(), path);
  if (absl::IsNotFound(entry.status())) return nullptr;
  CKPTDB_RETURN_IF_ERROR(entry.status());
  if (entry->kind == EntryKind::kFolder) {
    CKPTDB_ASSIGN_OR_RETURN(const auto names, ListFolder(files.get(), path));
    if (names.empty()) return nullptr;
    if (IsEmptyStore(path, uuid)) {
      CKPTDB_RETURN_IF_ERROR(CheckIsStore(files, path));
      CKPTDB_ASSIGN_OR_RETURN(auto lock, OwnerLock::Acquire(files, path));
      // An owner may have saved a step before.
      if (IsEmptyStore(path, uuid)) return lock;
    }
  }
  return absl::AlreadyExistsError(absl::StrCat(
      "\"", path, "\" exists and is not an empty folder; nothing was changed"));
}

}  // namespace

absl::StatusOr<std::unique_ptr<StoreBuilder>> StoreBuilder::Begin(
    absl::string_view path, absl::string_view uuid) {
  CKPTDB_RETURN_IF_ERROR(EnterLibrary("StoreBuilder::Begin"));
  CKPTDB_ASSIGN_OR_RETURN(const std::string resolved, ResolveStorePath(path));
  CKPTDB_ASSIGN_OR_RETURN(auto replaced, TakePath(resolved, uuid));
  CKPTDB_ASSIGN_OR_RETURN(auto unfinished, UnfinishedFolder::Take(resolved));
  auto builder = std::make_unique<BuilderInFolder>(
      resolved, std::move(replaced), std::move(unfinished));
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
