// SPDX-License-Identifier: Apache-2.0
// Makes a store from a backup or another store.
#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "db/backup.h"
#include "db/base/call_guard.h"
#include "db/base/home_process.h"
#include "db/disk/copy_file.h"
#include "db/disk/environment.h"
#include "db/disk/files.h"
#include "db/disk/rocks_status.h"
#include "db/disk/store_path.h"
#include "db/reader.h"
#include "db/rocks/find_database.h"
#include "db/rocks/owner_lock.h"
#include "db/store/backup_folder.h"
#include "db/store/store_identity.h"
#include "db/store/store_snapshot.h"
#include "schema/status.h"

namespace ckptdb {
namespace internal {
namespace {

constexpr std::array<const char*, 10> kStoreNames = {
    "LOCK",    "OWNER",  "SHIPPED", "WATERMARK", "db",
    "staging", "leases", "posts",   "SPARE",     kFolderLockName};

bool IsStoreName(const std::string& name) {
  return std::find(kStoreNames.begin(), kStoreNames.end(), name) !=
         kStoreNames.end();
}

// Returns an error unless the folder at `path` contains a store and nothing
// else.
absl::Status CheckIsStore(const std::shared_ptr<rocksdb::FileSystem>& files,
                          const std::string& path) {
  CKPTDB_ASSIGN_OR_RETURN(const auto names, ListFolder(files.get(), path));
  for (const std::string& name : names) {
    if (IsStoreName(name)) continue;
    return absl::FailedPreconditionError(absl::StrCat(
        "\"", path, "/", name,
        "\" does not belong to a store; move it away before replacing it"));
  }
  const absl::StatusOr<bool> found = FindDatabase(files, path);
  // A store without its CURRENT is damaged, and may be replaced.
  if (absl::IsDataLoss(found.status())) return absl::OkStatus();
  CKPTDB_RETURN_IF_ERROR(found.status());
  if (*found) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("\"", path, "\" is not a store, and is not replaced"));
}

// The target of a copy. Its lock prevents an owner from opening the store that
// is replaced.
struct Target {
  bool exists = false;  // as a store to be replaced
  std::shared_ptr<OwnerLock> lock;
};

absl::StatusOr<Target> CheckTarget(
    const std::shared_ptr<rocksdb::FileSystem>& files, const std::string& to,
    bool replace) {
  Target target;
  const absl::StatusOr<Entry> entry = LookAt(files.get(), to);
  if (absl::IsNotFound(entry.status())) return target;
  CKPTDB_RETURN_IF_ERROR(entry.status());
  if (entry->kind != EntryKind::kFolder) {
    return absl::AlreadyExistsError(absl::StrCat("\"", to, "\" exists"));
  }
  CKPTDB_ASSIGN_OR_RETURN(const auto names, ListFolder(files.get(), to));
  if (names.empty()) return target;
  if (!replace) {
    return absl::AlreadyExistsError(absl::StrCat(
        "\"", to, "\" exists and is not empty; nothing was changed"));
  }
  CKPTDB_RETURN_IF_ERROR(CheckIsStore(files, to));
  CKPTDB_ASSIGN_OR_RETURN(target.lock, OwnerLock::Acquire(files, to));
  target.exists = true;
  return target;
}

// Returns an error if the folder for the unfinished copy has anything but what
// an interrupted call leaves there: a part of the copy, or the replaced store.
absl::Status CheckIsRemainder(rocksdb::FileSystem* files,
                              const std::string& unfinished) {
  CKPTDB_ASSIGN_OR_RETURN(const auto names, ListFolder(files, unfinished));
  for (const std::string& name : names) {
    if (IsStoreName(name) || IsTemporaryName(name)) continue;
    return absl::FailedPreconditionError(absl::StrCat(
        "\"", unfinished, "/", name,
        "\" is not part of an interrupted copy; move it away, because copies "
        "are made in that folder"));
  }
  return absl::OkStatus();
}

// Removes what an earlier call left, except the lock.
absl::Status Clear(rocksdb::FileSystem* files, const std::string& path) {
  CKPTDB_ASSIGN_OR_RETURN(const auto names, ListFolder(files, path));
  for (const std::string& name : names) {
    if (name == kFolderLockName) continue;
    CKPTDB_RETURN_IF_ERROR(RemoveTree(files, absl::StrCat(path, "/", name)));
  }
  return absl::OkStatus();
}

// A backup lists what its files must be.
absl::Status CompareWithNote(const std::string& from, const BackupNote& note,
                             const std::vector<NotedFile>& copied) {
  std::map<std::string, NotedFile> by_path;
  for (const NotedFile& file : copied) by_path.emplace(file.path, file);
  for (const NotedFile& file : note.files) {
    const auto found = by_path.find(file.path);
    if (found == by_path.end() || !found->second.hash.has_value() ||
        !file.hash.has_value() || found->second.hash == file.hash) {
      continue;
    }
    return OtherChecksum(absl::StrCat(from, "/", file.path));
  }
  return absl::OkStatus();
}

absl::Status CopyFiles(rocksdb::FileSystem* files, const std::string& from,
                       const std::string& unfinished,
                       const CopyOptions& options) {
  const absl::StatusOr<BackupNote> note = ReadBackupNote(files, from);
  if (!absl::IsNotFound(note.status())) {
    CKPTDB_RETURN_IF_ERROR(note.status());
    CKPTDB_RETURN_IF_ERROR(CheckSizes(files, from, *note));
  }
  StoreSnapshot snapshot(from, unfinished, {}, options);
  CKPTDB_RETURN_IF_ERROR(snapshot.Take());
  if (!note.ok()) return absl::OkStatus();
  return CompareWithNote(from, *note, snapshot.files());
}

// Moves the finished copy to its name. The folder of a replaced store is
// removed afterwards; if that is interrupted, the next copy to `to` does it.
absl::Status MoveTo(rocksdb::FileSystem* files, const std::string& unfinished,
                    const std::string& to, const Target& target) {
  absl::Status moved = absl::UnimplementedError("");
  if (target.exists) moved = ExchangeFolders(unfinished, to);
  const bool exchanged = moved.ok();
  if (!absl::IsUnimplemented(moved)) CKPTDB_RETURN_IF_ERROR(moved);
  const std::string old = to + ".replaced";
  const auto rename = [&](const std::string& from, const std::string& name) {
    return FromRocks(
        files->RenameFile(from, name, rocksdb::IOOptions(), nullptr),
        absl::StrCat("naming \"", name, "\""));
  };
  if (!exchanged) {
    if (target.exists) CKPTDB_RETURN_IF_ERROR(rename(to, old));
    CKPTDB_RETURN_IF_ERROR(rename(unfinished, to));
  }
  // Only now: without it another copy to `to` could clear this one meanwhile.
  CKPTDB_RETURN_IF_ERROR(
      RemoveFile(files, absl::StrCat(to, "/", kFolderLockName)));
  CKPTDB_RETURN_IF_ERROR(SyncFolder(files, ParentFolder(to)));
  return target.exists ? RemoveTree(files, exchanged ? unfinished : old)
                       : absl::OkStatus();
}

absl::Status Copy(absl::string_view from_path, absl::string_view to_path,
                  const CopyOptions& options) {
  CKPTDB_ASSIGN_OR_RETURN(const std::string from, ResolveStorePath(from_path));
  CKPTDB_ASSIGN_OR_RETURN(const std::string to, ResolveStorePath(to_path));
  if (absl::StartsWith(to + "/", from + "/") ||
      absl::StartsWith(from + "/", to + "/")) {
    return absl::InvalidArgumentError(
        absl::StrCat("\"", to, "\" and \"", from,
                     "\" contain each other; name separate "
                     "folders"));
  }
  StoreOptions reading;
  reading.leases = StoreOptions::LeaseMode::kNone;
  CKPTDB_RETURN_IF_ERROR(Reader::Open(from, reading).status());
  const auto files = std::make_shared<GuardedFileSystem>(
      Environment::Default()->file_system(), ModesOfStore(from));
  CKPTDB_ASSIGN_OR_RETURN(const Target target,
                          CheckTarget(files, to, options.replace));
  const std::string unfinished = to + ".unfinished";
  CKPTDB_RETURN_IF_ERROR(MakeFolders(files.get(), unfinished));
  CKPTDB_RETURN_IF_ERROR(CheckIsRemainder(files.get(), unfinished));
  CKPTDB_ASSIGN_OR_RETURN(const FolderLock lock, FolderLock::Take(unfinished));
  CKPTDB_RETURN_IF_ERROR(Clear(files.get(), unfinished));
  absl::Status status = CopyFiles(files.get(), from, unfinished, options);
  if (status.ok()) status = ChangeStoreIdentity(unfinished);
  if (status.ok() && options.prepare) status = options.prepare(unfinished);
  if (!status.ok()) {
    RemoveTree(files.get(), unfinished).IgnoreError();
    return status;
  }
  return MoveTo(files.get(), unfinished, to, target);
}

}  // namespace
}  // namespace internal

absl::Status CopyStore(absl::string_view from, absl::string_view to,
                       const CopyOptions& options) {
  return internal::CallGuarded("CopyStore", [&]() -> absl::Status {
    CKPTDB_RETURN_IF_ERROR(internal::EnterLibrary("CopyStore"));
    return internal::Copy(from, to, options);
  });
}

}  // namespace ckptdb
