// SPDX-License-Identifier: Apache-2.0
// Makes, lists, verifies and removes backups.
#include <algorithm>
#include <memory>
#include <set>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "db/backup.h"
#include "db/base/call_guard.h"
#include "db/base/cancelled.h"
#include "db/base/home_process.h"
#include "db/disk/copy_file.h"
#include "db/disk/environment.h"
#include "db/disk/files.h"
#include "db/disk/rocks_status.h"
#include "db/disk/store_path.h"
#include "db/reader.h"
#include "db/store/backup_folder.h"
#include "db/store/backup_note.h"
#include "db/store/store_snapshot.h"
#include "schema/bytes/annotate.h"
#include "schema/status.h"

namespace ckptdb {
namespace internal {
namespace {

constexpr char kUnfinished[] = ".unfinished";
constexpr char kRemoved[] = ".removed-";
constexpr char kSourceName[] = "SOURCE";  // the uuid, in an unfinished backup

rocksdb::FileSystem* BackupFiles() {
  return Environment::Default()->file_system().get();
}

absl::Status CheckBackupName(const std::string& name) {
  constexpr size_t kMaxNameLength = 200;
  if (name.size() <= kMaxNameLength && !absl::StartsWith(name, ".") &&
      !absl::StrContains(name, '/') && name.find('\0') == std::string::npos) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "the backup's name \"", name, "\" is invalid; it must have at most ",
      kMaxNameLength, " bytes, no \"/\" and no \".\" at the beginning"));
}

// "20261126T133116Z", followed by "-2" if that exists.
absl::StatusOr<std::string> NameByTime(rocksdb::FileSystem* files,
                                       const std::string& folder,
                                       int64_t micros) {
  const std::string time = absl::FormatTime(
      "%Y%m%dT%H%M%SZ", absl::FromUnixMicros(micros), absl::UTCTimeZone());
  std::string name = time;
  for (int i = 2;; ++i) {
    CKPTDB_ASSIGN_OR_RETURN(const bool used,
                            Exists(files, absl::StrCat(folder, "/", name)));
    if (!used) return name;
    name = absl::StrCat(time, "-", i);
  }
}

// Removes a folder so that no part of it remains under its name.
absl::Status RemoveBackup(rocksdb::FileSystem* files, const std::string& folder,
                          const std::string& name) {
  const std::string removed = absl::StrCat(folder, "/", kRemoved, name);
  CKPTDB_RETURN_IF_ERROR(RemoveTree(files, removed));
  CKPTDB_RETURN_IF_ERROR(
      FromRocks(files->RenameFile(absl::StrCat(folder, "/", name), removed,
                                  rocksdb::IOOptions(), nullptr),
                absl::StrCat("removing \"", name, "\"")));
  return RemoveTree(files, removed);
}

absl::Status RemoveLeftovers(rocksdb::FileSystem* files,
                             const std::string& folder) {
  CKPTDB_ASSIGN_OR_RETURN(const auto names, ListFolder(files, folder));
  for (const std::string& name : names) {
    if (!absl::StartsWith(name, kRemoved)) continue;
    CKPTDB_RETURN_IF_ERROR(RemoveTree(files, absl::StrCat(folder, "/", name)));
  }
  return absl::OkStatus();
}

// Keeps the unfinished backup only if it is of this store.
absl::Status PrepareUnfinished(rocksdb::FileSystem* files,
                               const std::string& path,
                               const std::string& uuid) {
  const std::string source = absl::StrCat(path, "/", kSourceName);
  const absl::StatusOr<std::string> found = ReadFile(files, source);
  if (found.ok() && *found == uuid) return absl::OkStatus();
  CKPTDB_RETURN_IF_ERROR(RemoveTree(files, path));
  CKPTDB_RETURN_IF_ERROR(MakeFolders(files, path));
  return ReplaceFile(files, source, uuid, /*sync=*/true);
}

StoreOptions SilentReader() {
  StoreOptions options;
  options.leases = StoreOptions::LeaseMode::kNone;
  return options;
}

// Opens the copy as a reader does, and compares its steps.
absl::Status CheckOpens(const std::string& path, const StoreSnapshot& taken) {
  CKPTDB_ASSIGN_OR_RETURN(const auto reader,
                          Reader::Open(path, SilentReader()));
  std::set<std::string> missing;
  for (const std::string& bad : taken.bad_files()) missing.insert(bad);
  for (const std::string& bad : reader->BadFiles()) {
    if (missing.contains("db/" + bad)) continue;
    return absl::DataLossError(absl::StrCat(
        "\"", path, "/db/", bad,
        "\" is damaged; run `ckptdb verify` on the store that was copied"));
  }
  if (reader->Steps().size() == taken.records().steps.size()) {
    return absl::OkStatus();
  }
  return absl::DataLossError(
      absl::StrCat("\"", path, "\" has ", reader->Steps().size(),
                   " steps, expected ", taken.records().steps.size()));
}

Backup Describe(const StoreSnapshot& taken, int64_t now_micros, bool named) {
  Backup backup;
  backup.store_uuid = taken.records().root.uuid;
  backup.made_at_micros = now_micros;
  backup.named = named;
  backup.steps = taken.records().steps.size();
  const StepRecord* const newest = taken.records().Newest();
  if (newest != nullptr) backup.latest_step = newest->version.step;
  backup.new_bytes = taken.new_bytes();
  backup.bad_files = taken.bad_files();
  return backup;
}

// The files of earlier backups of the same store, newest first.
absl::StatusOr<std::vector<EarlierFiles>> EarlierOf(rocksdb::FileSystem* files,
                                                    const std::string& folder,
                                                    const std::string& uuid) {
  CKPTDB_ASSIGN_OR_RETURN(std::vector<Backup> backups, ListIn(files, folder));
  std::reverse(backups.begin(), backups.end());
  std::vector<EarlierFiles> earlier;
  for (const Backup& backup : backups) {
    if (!backup.damage.empty() || backup.store_uuid != uuid) continue;
    CKPTDB_ASSIGN_OR_RETURN(const BackupNote note,
                            ReadBackupNote(files, backup.path));
    EarlierFiles& files_of = earlier.emplace_back();
    files_of.path = backup.path;
    for (const NotedFile& file : note.files) {
      files_of.files.emplace(file.path, file);
    }
  }
  return earlier;
}

// Returns the time, but later than that of all backups in the folder: a clock
// that was set back must not make the newest backup look old.
absl::StatusOr<int64_t> NextTime(rocksdb::FileSystem* files,
                                 const std::string& folder) {
  CKPTDB_ASSIGN_OR_RETURN(const std::vector<Backup> backups,
                          ListIn(files, folder));
  const int64_t now = Environment::Default()->NowMicros();
  return backups.empty() ? now
                         : std::max(now, backups.back().made_at_micros + 1);
}

// Makes the unfinished backup complete, and returns its list of files.
absl::StatusOr<BackupNote> Fill(rocksdb::FileSystem* files,
                                const std::string& store,
                                const std::string& folder,
                                const std::string& unfinished,
                                const CopyOptions& options) {
  CKPTDB_ASSIGN_OR_RETURN(const auto reader,
                          Reader::Open(store, SilentReader()));
  const std::string uuid = reader->uuid();
  CKPTDB_RETURN_IF_ERROR(PrepareUnfinished(files, unfinished, uuid));
  CKPTDB_ASSIGN_OR_RETURN(auto earlier, EarlierOf(files, folder, uuid));
  StoreSnapshot snapshot(store, unfinished, std::move(earlier), options);
  CKPTDB_RETURN_IF_ERROR(snapshot.Take());
  CKPTDB_RETURN_IF_ERROR(CheckOpens(unfinished, snapshot));
  CKPTDB_ASSIGN_OR_RETURN(const int64_t made_at, NextTime(files, folder));
  return BackupNote{Describe(snapshot, made_at, !options.name.empty()),
                    snapshot.files()};
}

// The name appears last.
absl::Status Finish(rocksdb::FileSystem* files, const std::string& unfinished,
                    const std::string& path, const BackupNote& note) {
  CKPTDB_RETURN_IF_ERROR(
      RemoveFile(files, absl::StrCat(unfinished, "/", kSourceName)));
  CKPTDB_RETURN_IF_ERROR(
      ReplaceFile(files, absl::StrCat(unfinished, "/", kBackupNoteName),
                  EncodeBackupNote(note), /*sync=*/true));
  CKPTDB_RETURN_IF_ERROR(FromRocks(
      files->RenameFile(unfinished, path, rocksdb::IOOptions(), nullptr),
      absl::StrCat("naming \"", path, "\"")));
  return SyncFolder(files, ParentFolder(path));
}

// Returns the path of the new backup, which no other has.
absl::StatusOr<std::string> NewPath(rocksdb::FileSystem* files,
                                    const std::string& folder,
                                    std::string name) {
  if (name.empty()) {
    CKPTDB_ASSIGN_OR_RETURN(
        name, NameByTime(files, folder, Environment::Default()->NowMicros()));
  }
  const std::string path = absl::StrCat(folder, "/", name);
  CKPTDB_ASSIGN_OR_RETURN(const bool used, Exists(files, path));
  if (!used) return path;
  return absl::AlreadyExistsError(
      absl::StrCat("\"", path, "\" exists; use another name"));
}

absl::StatusOr<Backup> Make(absl::string_view store_path,
                            absl::string_view folder_path,
                            const CopyOptions& options) {
  CKPTDB_RETURN_IF_ERROR(CheckBackupName(options.name));
  CKPTDB_ASSIGN_OR_RETURN(const std::string store,
                          ResolveStorePath(store_path));
  CKPTDB_ASSIGN_OR_RETURN(const std::string folder,
                          ResolveStorePath(folder_path));
  if (absl::StartsWith(folder + "/", store + "/")) {
    return absl::InvalidArgumentError(
        absl::StrCat("\"", folder,
                     "\" is within the store; name a folder "
                     "outside of it"));
  }
  // Fails before it creates a folder for a mistyped store.
  CKPTDB_ASSIGN_OR_RETURN(const auto reader,
                          Reader::Open(store, SilentReader()));
  if (!reader->parts().empty()) {
    return absl::FailedPreconditionError(absl::StrCat(
        "\"", store, "\" was fetched with only ", reader->parts(),
        ", so a backup of it could not be restored; fetch it again instead"));
  }
  GuardedFileSystem files(Environment::Default()->file_system(),
                          ModesOfStore(store));
  CKPTDB_RETURN_IF_ERROR(MakeFolders(&files, folder));
  CKPTDB_ASSIGN_OR_RETURN(const FolderLock lock, FolderLock::Take(folder));
  CKPTDB_RETURN_IF_ERROR(RemoveLeftovers(&files, folder));
  CKPTDB_ASSIGN_OR_RETURN(const std::string path,
                          NewPath(&files, folder, options.name));
  const std::string unfinished = absl::StrCat(folder, "/", kUnfinished);
  CKPTDB_ASSIGN_OR_RETURN(const BackupNote note,
                          Fill(&files, store, folder, unfinished, options));
  CKPTDB_RETURN_IF_ERROR(Finish(&files, unfinished, path, note));
  return FindIn(&files, path);
}

absl::Status VerifyFiles(const std::string& path, const ReadOptions& options) {
  rocksdb::FileSystem* const files = BackupFiles();
  CKPTDB_ASSIGN_OR_RETURN(const BackupNote note, ReadBackupNote(files, path));
  CKPTDB_RETURN_IF_ERROR(CheckSizes(files, path, note));
  for (const NotedFile& file : note.files) {
    if (!file.hash.has_value()) continue;
    const std::string file_path = absl::StrCat(path, "/", file.path);
    CKPTDB_ASSIGN_OR_RETURN(const CopiedBytes read,
                            HashFile(files, file_path, [&](uint64_t) {
                              return CheckCancelled(options.cancelled);
                            }));
    if (read.hash != *file.hash) return OtherChecksum(file_path);
  }
  return absl::OkStatus();
}

absl::Status Verify(absl::string_view backup, const ReadOptions& options) {
  CKPTDB_ASSIGN_OR_RETURN(const std::string path, ResolveStorePath(backup));
  CKPTDB_RETURN_IF_ERROR(VerifyFiles(path, options));
  CKPTDB_ASSIGN_OR_RETURN(const auto reader,
                          Reader::Open(path, SilentReader()));
  std::set<Version> verified;
  for (const StepRecord& record : reader->Steps()) {
    CKPTDB_ASSIGN_OR_RETURN(const auto step,
                            reader->OpenStep(record.version.step));
    CKPTDB_RETURN_IF_ERROR(Annotate(step->Verify(options, &verified), path));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<std::string>> RemoveOld(absl::string_view path,
                                                   absl::string_view uuid,
                                                   uint64_t keep) {
  rocksdb::FileSystem* const files = BackupFiles();
  CKPTDB_ASSIGN_OR_RETURN(const std::string folder, ResolveStorePath(path));
  CKPTDB_ASSIGN_OR_RETURN(const FolderLock lock, FolderLock::Take(folder));
  CKPTDB_ASSIGN_OR_RETURN(const std::vector<Backup> backups,
                          ListIn(files, folder));
  std::vector<std::string> old;
  uint64_t complete = 0;  // of those that stay
  uint64_t staying = 0;
  for (auto backup = backups.rbegin(); backup != backups.rend(); ++backup) {
    if (!backup->damage.empty() || backup->named ||
        backup->store_uuid != uuid) {
      continue;
    }
    const bool is_complete = backup->bad_files.empty();
    if (complete == keep || (!is_complete && staying >= keep)) {
      old.insert(old.begin(), backup->name);
      continue;
    }
    ++staying;
    if (is_complete) ++complete;
  }
  for (const std::string& name : old) {
    CKPTDB_RETURN_IF_ERROR(RemoveBackup(files, folder, name));
  }
  return old;
}

}  // namespace
}  // namespace internal

absl::StatusOr<Backup> MakeBackup(absl::string_view store,
                                  absl::string_view folder,
                                  const CopyOptions& options) {
  return internal::CallGuarded("MakeBackup", [&]() -> absl::StatusOr<Backup> {
    CKPTDB_RETURN_IF_ERROR(internal::EnterLibrary("MakeBackup"));
    return internal::Make(store, folder, options);
  });
}

absl::StatusOr<std::vector<Backup>> ListBackups(absl::string_view folder) {
  return internal::CallGuarded(
      "ListBackups", [&]() -> absl::StatusOr<std::vector<Backup>> {
        CKPTDB_ASSIGN_OR_RETURN(const std::string path,
                                internal::ResolveStorePath(folder));
        return internal::ListIn(internal::BackupFiles(), path);
      });
}

absl::StatusOr<Backup> FindBackup(absl::string_view path) {
  return internal::CallGuarded("FindBackup", [&]() -> absl::StatusOr<Backup> {
    CKPTDB_ASSIGN_OR_RETURN(const std::string resolved,
                            internal::ResolveStorePath(path));
    return internal::FindIn(internal::BackupFiles(), resolved);
  });
}

absl::Status VerifyBackup(absl::string_view path, const ReadOptions& options) {
  return internal::CallGuarded("VerifyBackup", [&]() -> absl::Status {
    CKPTDB_RETURN_IF_ERROR(internal::EnterLibrary("VerifyBackup"));
    return internal::Verify(path, options);
  });
}

absl::StatusOr<std::vector<std::string>> RemoveOldBackups(
    absl::string_view folder, absl::string_view store_uuid, uint64_t keep) {
  return internal::CallGuarded("RemoveOldBackups", [&] {
    return internal::RemoveOld(folder, store_uuid, keep);
  });
}

}  // namespace ckptdb
