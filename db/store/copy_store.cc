// SPDX-License-Identifier: Apache-2.0
// Makes a store from a backup or another store.
#include <map>
#include <memory>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "db/backup.h"
#include "db/base/call_guard.h"
#include "db/base/home_process.h"
#include "db/disk/copy_file.h"
#include "db/disk/environment.h"
#include "db/disk/files.h"
#include "db/disk/rocks_status.h"
#include "db/disk/store_path.h"
#include "db/reader.h"
#include "db/rocks/owner_lock.h"
#include "db/store/backup_folder.h"
#include "db/store/store_identity.h"
#include "db/store/store_names.h"
#include "db/store/store_snapshot.h"
#include "schema/status.h"

namespace ckptdb {
namespace internal {
namespace {

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
  if (entry->kind == EntryKind::kMountPoint) {
    return absl::FailedPreconditionError(absl::StrCat(
        "\"", to,
        "\" is a mount point, which cannot be replaced as a whole; "
        "choose a folder in it, such as \"",
        to, "/store\""));
  }
  if (entry->kind != EntryKind::kFolder) {
    return absl::AlreadyExistsError(
        absl::StrCat("\"", to, "\" exists, and is not a folder"));
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

// Whether a killed call may leave this entry, beside those of a store.
bool IsLeftover(absl::string_view name) {
  if (IsTemporaryName(name) || name == kLinkProbeName) return true;
  return absl::ConsumeSuffix(&name, kCopyingSuffix) &&
         IsStoreName(std::string(name));
}

// Returns an error if the folder for the unfinished copy has anything but what
// an interrupted call leaves there: a part of the copy, or the replaced store.
absl::Status CheckIsRemainder(rocksdb::FileSystem* files,
                              const std::string& unfinished) {
  CKPTDB_ASSIGN_OR_RETURN(const auto names, ListFolder(files, unfinished));
  for (const std::string& name : names) {
    if (IsStoreName(name) || IsLeftover(name)) continue;
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

absl::Status Rename(rocksdb::FileSystem* files, const std::string& from,
                    const std::string& to) {
  return FromRocks(files->RenameFile(from, to, rocksdb::IOOptions(), nullptr),
                   absl::StrCat("naming \"", to, "\""));
}

// Recovers from a call that was killed while the replaced store was at `old`:
// removes it if the copy has been renamed to `to`, otherwise renames it back.
absl::Status EndReplacement(const std::shared_ptr<rocksdb::FileSystem>& files,
                            const std::string& old, const std::string& to) {
  CKPTDB_RETURN_IF_ERROR(CheckIsStore(files, old));
  const absl::StatusOr<Entry> entry = LookAt(files.get(), to);
  if (absl::IsNotFound(entry.status())) return Rename(files.get(), old, to);
  CKPTDB_RETURN_IF_ERROR(entry.status());
  // A finished copy keeps its lock file until `old` is renamed.
  CKPTDB_ASSIGN_OR_RETURN(
      const bool copied,
      Exists(files.get(), absl::StrCat(to, "/", kFolderLockName)));
  if (copied) return RemoveTree(files.get(), old);
  return absl::FailedPreconditionError(absl::StrCat(
      "\"", old,
      "\" is the store that an interrupted copy was replacing, and \"", to,
      "\" was made since; move one of them away"));
}

// Recovers from a killed call, if there was one, and checks the target again.
absl::Status Recover(const std::shared_ptr<rocksdb::FileSystem>& files,
                     const std::string& to, bool replace, Target* target) {
  const std::string old = ReplacedStorePath(to);
  CKPTDB_ASSIGN_OR_RETURN(const bool interrupted, Exists(files.get(), old));
  if (!interrupted) return absl::OkStatus();
  CKPTDB_RETURN_IF_ERROR(EndReplacement(files, old, to));
  *target = Target();  // releases the lock
  CKPTDB_ASSIGN_OR_RETURN(*target, CheckTarget(files, to, replace));
  return absl::OkStatus();
}

// Renames the finished copy to `to`, and the replaced store to `unfinished`.
// After an error, `unfinished` is the copy or does not exist.
absl::Status Exchange(rocksdb::FileSystem* files, const std::string& unfinished,
                      const std::string& to) {
  absl::Status exchanged = ExchangeFolders(unfinished, to);
  if (!absl::IsUnimplemented(exchanged)) return exchanged;
  const std::string old = ReplacedStorePath(to);
  CKPTDB_RETURN_IF_ERROR(Rename(files, to, old));
  absl::Status named = Rename(files, unfinished, to);
  if (!named.ok()) {
    Rename(files, old, to).IgnoreError();
    return named;
  }
  CKPTDB_RETURN_IF_ERROR(SyncFolder(files, ParentFolder(to)));
  return Rename(files, old, unfinished);
}

absl::Status Name(rocksdb::FileSystem* files, const std::string& unfinished,
                  const std::string& to, const Target& target) {
  return target.exists ? Exchange(files, unfinished, to)
                       : Rename(files, unfinished, to);
}

// Deletes the replaced store. If this is interrupted, the next copy to `to`
// deletes the rest.
absl::Status Finish(rocksdb::FileSystem* files, const std::string& unfinished,
                    const std::string& to, const Target& target) {
  // Only now: without it another copy to `to` could clear this one meanwhile.
  CKPTDB_RETURN_IF_ERROR(
      RemoveFile(files, absl::StrCat(to, "/", kFolderLockName)));
  CKPTDB_RETURN_IF_ERROR(SyncFolder(files, ParentFolder(to)));
  return target.exists ? RemoveTree(files, unfinished) : absl::OkStatus();
}

// Writes the copy to `unfinished`.
absl::Status Make(rocksdb::FileSystem* files, const std::string& from,
                  const std::string& unfinished, const CopyOptions& options) {
  CKPTDB_RETURN_IF_ERROR(Clear(files, unfinished));
  CKPTDB_RETURN_IF_ERROR(CopyFiles(files, from, unfinished, options));
  CKPTDB_RETURN_IF_ERROR(ChangeStoreIdentity(unfinished));
  return options.prepare ? options.prepare(unfinished) : absl::OkStatus();
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
  CKPTDB_ASSIGN_OR_RETURN(Target target,
                          CheckTarget(files, to, options.replace));
  const std::string unfinished = to + ".unfinished";
  CKPTDB_RETURN_IF_ERROR(MakeFolders(files.get(), unfinished));
  CKPTDB_RETURN_IF_ERROR(CheckIsRemainder(files.get(), unfinished));
  CKPTDB_ASSIGN_OR_RETURN(const FolderLock lock, FolderLock::Take(unfinished));
  absl::Status status = Recover(files, to, options.replace, &target);
  if (status.ok()) status = Make(files.get(), from, unfinished, options);
  if (status.ok()) status = Name(files.get(), unfinished, to, target);
  if (!status.ok()) {
    RemoveTree(files.get(), unfinished).IgnoreError();
    return status;
  }
  return Finish(files.get(), unfinished, to, target);
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
