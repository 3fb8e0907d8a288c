// SPDX-License-Identifier: Apache-2.0
#include "db/store/store_folder.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "db/base/hit_crash_point.h"
#include "db/base/paths.h"
#include "db/base/uuid.h"
#include "db/disk/files.h"
#include "db/disk/rocks_status.h"
#include "db/disk/store_path.h"
#include "db/rocks/find_database.h"
#include "db/rocks/manifest_size.h"
#include "db/store/backup_note.h"
#include "db/store/measure_usage.h"
#include "schema/bytes/annotate.h"
#include "schema/bytes/keys.h"
#include "schema/bytes/page.h"
#include "schema/records/branches.h"
#include "schema/records/records.h"
#include "schema/status.h"

namespace ckptdb::internal {
namespace {

// Creating a store here would hide the one that an interrupted copy renamed.
absl::Status CheckIsNotReplaced(rocksdb::FileSystem* files,
                                const std::string& path) {
  const std::string old = ReplacedStorePath(path);
  const absl::StatusOr<bool> replaced = Exists(files, old);
  // The longer name exceeds the file system's limit, so it does not exist.
  if (absl::IsInvalidArgument(replaced.status())) return absl::OkStatus();
  CKPTDB_RETURN_IF_ERROR(replaced.status());
  if (!*replaced) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      "\"", old, "\" is the store that an interrupted copy was replacing at \"",
      path, "\"; repeat the copy, or rename it to \"", path, "\""));
}

// Returns the first attempt to attribute to the next owner. It includes the
// previous owner's trailing unfinished attempts: if this store is a copy made
// during a save, the original may still commit them.
uint32_t FirstAttemptOf(const Catalog& records) {
  uint32_t first = records.root.next_attempt;
  for (; first > 1; --first) {
    const auto last = records.attempts.find(first - 1);
    if (last == records.attempts.end() ||
        last->second.state != AttemptState::kBegun) {
      break;
    }
  }
  return first;
}

}  // namespace

StoreFolder::StoreFolder(absl::string_view path, const StoreOptions& options)
    : path_(path),
      options_(options),
      environment_(options.environment != nullptr
                       ? options.environment
                       : internal::Environment::Default()),
      // Only the machine's own file system supports spare space.
      spare_(absl::StrCat(path_, "/", kSpareName),
             environment_->on_disk() ? options.spare_bytes : 0,
             options.file_mode) {}

absl::StatusOr<StoreFolder::Opened> StoreFolder::Open(
    absl::string_view path, const StoreOptions& options) {
  std::unique_ptr<StoreFolder> folder(new StoreFolder(path, options));
  CKPTDB_RETURN_IF_ERROR(folder->OpenFolder());
  absl::StatusOr<Catalog> records = folder->OpenDatabase();
  if (!records.ok()) return folder->ExplainOpenError(records.status());
  return Opened{std::move(folder), *std::move(records)};
}

absl::Status StoreFolder::Close() {
  absl::Status closed;
  // The lock is released last, so that the next owner finds a closed database.
  if (database_ != nullptr) {
    closed = database_->Close();
    closed.Update(lock_->CheckFiles());
  }
  database_.reset();
  if (lock_ != nullptr) lock_->Release();
  return closed;
}

std::string StoreFolder::StagingFolder(uint32_t attempt) const {
  return absl::StrCat(path_, "/", StagingOf(attempt));
}

absl::Status StoreFolder::OpenFolder() {
  const auto files = std::make_shared<GuardedFileSystem>(
      environment_->file_system(),
      FileModes{options_.directory_mode, options_.file_mode,
                environment_->on_disk()});
  // Checked before anything is created, so that a mistyped path creates no
  // folders unless a store may be created.
  CKPTDB_ASSIGN_OR_RETURN(const bool found, FindDatabase(files, path_));
  if (!found) CKPTDB_RETURN_IF_ERROR(CheckIsNotReplaced(files.get(), path_));
  if (!found && !options_.create_if_missing) {
    return absl::NotFoundError(
        absl::StrCat("no store at \"", path_,
                     "\"; set StoreOptions::create_if_missing to create one"));
  }
  CKPTDB_RETURN_IF_ERROR(CheckIsNoBackup(files.get(), path_));
  CKPTDB_RETURN_IF_ERROR(MakeFolders(files.get(), path_));
  // The lock precedes the space check, which may free the spare space. OWNER is
  // written after both because it fences off another owner, which an open that
  // lacks space must not do.
  CKPTDB_ASSIGN_OR_RETURN(lock_, OwnerLock::Acquire(files, path_));
  owner_id_ = std::max<uint64_t>(1, HashBytes(NewUuid()));
  CKPTDB_RETURN_IF_ERROR(CheckSpaceToOpen(files.get()));
  CKPTDB_RETURN_IF_ERROR(lock_->Announce());
  for (const std::string& folder : {DatabasePath(path_), StagingPath(path_),
                                    LeasesPath(path_), PostsPath(path_)}) {
    CKPTDB_RETURN_IF_ERROR(MakeFolders(files.get(), folder));
  }
  return absl::OkStatus();
}

// An open that fails for lack of space changes nothing.
absl::Status StoreFolder::CheckSpaceToOpen(rocksdb::FileSystem* files) const {
  CKPTDB_ASSIGN_OR_RETURN(const OpeningBytes needed,
                          BytesToOpen(files, DatabasePath(path_)));
  const auto check = [&] {
    return internal::CheckDiskSpace(files, path_, needed.bytes, /*reserve=*/0);
  };
  // Keeps no reserve: opening the store is how a full disk is freed.
  absl::Status status = check();
  if (absl::IsResourceExhausted(status) && spare_.Release(needed.bytes)) {
    status = check();
  }
  if (!absl::IsResourceExhausted(status) || needed.largest_file.empty()) {
    return status;
  }
  return absl::ResourceExhaustedError(absl::StrCat(
      status.message(),
      "; opening it rewrites its logs and its MANIFEST, the "
      "largest of which is \"",
      needed.largest_file, "\" with ", needed.largest_bytes, " bytes"));
}

// RocksDB's background work may find damage during the open; later writes then
// fail with that error.
absl::Status StoreFolder::ExplainOpenError(const absl::Status& status) const {
  if (database_ == nullptr) return status;
  const absl::Status failure = database_->failure();
  return failure.ok() ? status : failure;
}

absl::StatusOr<Catalog> StoreFolder::ReadRecords(CorruptTables* corrupt) const {
  CKPTDB_ASSIGN_OR_RETURN(
      const auto found,
      Database::OpenFollower(path_, *environment_, options_.direct_reads));
  *corrupt = found->corrupt_tables();
  return Annotate(LoadCatalog(*found), absl::StrCat("\"", path_, "\""));
}

// Opens the database after reading all records: a store that cannot be used is
// not modified.
absl::StatusOr<Catalog> StoreFolder::OpenDatabase() {
  CorruptTables corrupt;
  absl::StatusOr<Catalog> records = ReadRecords(&corrupt);
  // NotFound means a new store, or one whose creation was interrupted. RocksDB
  // changes the folder whenever it opens it for writing (line 14 of
  // docs/rocksdb.md), so any other error returns here.
  const bool none = absl::IsNotFound(records.status());
  if (!none) CKPTDB_RETURN_IF_ERROR(records.status());
  CKPTDB_ASSIGN_OR_RETURN(
      database_, Database::OpenOwner(
                     path_, *environment_,
                     {options_.directory_mode, options_.file_mode,
                      environment_->on_disk()},
                     options_.direct_reads, corrupt, lock_, options_.logger));
  if (none) records = MakeRecords();
  CKPTDB_RETURN_IF_ERROR(records.status());
  uuid_ = records->root.uuid;
  CKPTDB_RETURN_IF_ERROR(BeginOwnership(&*records));
  SetSpareAside();
  return records;
}

// The database is new, or its creator died before writing a root.
absl::StatusOr<Catalog> StoreFolder::MakeRecords() {
  absl::StatusOr<Catalog> records = LoadCatalog(*database_);
  // An interrupted creation may already have written the root.
  if (!absl::IsNotFound(records.status())) return records;
  CKPTDB_RETURN_IF_ERROR(CheckDiskSpace(kRecordOverhead));
  RootRecord root;
  root.uuid = NewUuid();
  root.created_at_micros = environment_->NowMicros();
  CKPTDB_RETURN_IF_ERROR(WriteRoot(root));
  // The root holds the UUID that leases, posts and step records will name, so
  // it must not exist only in the log.
  CKPTDB_RETURN_IF_ERROR(database_->Flush({Family::kMeta}));
  return LoadCatalog(*database_);
}

// New attempt numbers begin above every number found in the store.
absl::Status StoreFolder::BeginOwnership(Catalog* records) {
  uint32_t& next = records->root.next_attempt;
  for (const auto& [attempt, record] : records->attempts) {
    next = std::max(next, attempt + 1);
  }
  for (const auto& [version, bytes] : BulkBytes(*database_)) {
    next = std::max(next, version.attempt + 1);
  }
  ++records->root.owner_epoch;
  AddOwner(FirstAttemptOf(*records), owner_id_, &records->root.owners);
  // Not flushed: if the log loses it, the next open computes the attempt
  // counter again from the records and files.
  return WriteRoot(records->root);
}

absl::Status StoreFolder::WriteRoot(const RootRecord& root) {
  CKPTDB_ASSIGN_OR_RETURN(const std::string bytes, EncodeRootRecord(root));
  ChangeBatch batch;
  CKPTDB_RETURN_IF_ERROR(
      FromRocks(batch.Put(database_->family(Family::kMeta), RootKey(), bytes),
                "root record"));
  return database_->Write(&batch, /*sync=*/true);
}

// RocksDB ends the process when its write-ahead log hits a full disk, so check
// the space before each write.
absl::Status StoreFolder::CheckDiskSpace(uint64_t needed, Spare spare) const {
  absl::Status status =
      internal::CheckDiskSpace(files(), path_, needed, /*reserve=*/0);
  if (spare == Spare::kKeep || !absl::IsResourceExhausted(status)) {
    return status;
  }
  // Another owner's spare space is not available to this one.
  CKPTDB_RETURN_IF_ERROR(lock_->Check());
  if (!spare_.Release(needed)) return status;
  return internal::CheckDiskSpace(files(), path_, needed, /*reserve=*/0);
}

absl::Status StoreFolder::CheckDiskSpaceFor(const ChangeBatch& batch,
                                            Spare spare) const {
  // Each record is written twice: to the write-ahead log and to an SST file.
  constexpr uint64_t kCopies = 2;
  return CheckDiskSpace(kRecordOverhead + kCopies * batch.bytes(), spare);
}

// A save keeps the reserve and never uses the spare space, which is for calls
// that free space.
absl::Status StoreFolder::CheckSaveSpace(uint64_t needed) const {
  return internal::CheckDiskSpace(files(), path_, needed,
                                  options_.reserve_bytes);
}

void StoreFolder::SetSpareAside() const {
  // A fenced owner must not write to the next owner's folder.
  if (spare_.IsSetAside() || !lock_->Check().ok()) return;
  const absl::StatusOr<uint64_t> free = FreeBytes(files(), path_);
  if (free.ok()) spare_.SetAside(*free);
}

// The batch is synced, and then flushed from the log to a file, because a
// flipped byte in the log would silently undo it (line 19 of docs/rocksdb.md).
absl::Status StoreFolder::WriteDurably(ChangeBatch* batch) const {
  CKPTDB_RETURN_IF_ERROR(database_->Write(batch, /*sync=*/true));
  CKPTDB_RETURN_IF_ERROR(database_->Flush({Family::kMeta}));
  CKPTDB_RETURN_IF_ERROR(database_->FailOn(database_->CheckOwner()));
  database_->NoteWatermark();
  return absl::OkStatus();
}

absl::Status StoreFolder::HitCrashPoint(absl::string_view point) const {
  return internal::HitCrashPoint(options_.on_point, "StoreOptions::on_point",
                                 point);
}

}  // namespace ckptdb::internal
