// SPDX-License-Identifier: Apache-2.0
#include "db/store/backup_folder.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "db/disk/environment.h"
#include "db/disk/files.h"
#include "db/disk/rocks_status.h"
#include "schema/bytes/annotate.h"
#include "schema/status.h"

namespace ckptdb::internal {

absl::StatusOr<BackupNote> ReadBackupNote(rocksdb::FileSystem* files,
                                          const std::string& path) {
  const std::string note_path = absl::StrCat(path, "/", kBackupNoteName);
  const absl::StatusOr<std::string> bytes =
      ReadFile(files, note_path, kMaxBackupNoteBytes);
  if (absl::IsNotFound(bytes.status())) {
    return absl::NotFoundError(absl::StrCat("\"", path, "\" is not a backup"));
  }
  CKPTDB_RETURN_IF_ERROR(bytes.status());
  return Annotate(DecodeBackupNote(*bytes), absl::StrCat("\"", path, "\""));
}

absl::StatusOr<Backup> FindIn(rocksdb::FileSystem* files,
                              const std::string& path) {
  CKPTDB_ASSIGN_OR_RETURN(BackupNote note, ReadBackupNote(files, path));
  note.backup.path = path;
  note.backup.name = path.substr(path.rfind('/') + 1);
  return std::move(note.backup);
}

absl::StatusOr<std::vector<Backup>> ListIn(rocksdb::FileSystem* files,
                                           const std::string& folder) {
  CKPTDB_RETURN_IF_ERROR(LookAt(files, folder).status());
  CKPTDB_ASSIGN_OR_RETURN(const auto names, ListFolder(files, folder));
  std::vector<Backup> backups;
  for (const std::string& name : names) {
    if (absl::StartsWith(name, ".")) continue;
    const std::string path = absl::StrCat(folder, "/", name);
    const absl::StatusOr<Entry> entry = LookAt(files, path);
    if (!entry.ok() || entry->kind != EntryKind::kFolder) continue;
    absl::StatusOr<Backup> found = FindIn(files, path);
    if (absl::IsNotFound(found.status())) continue;
    if (!found.ok()) {
      found.emplace();
      found->name = name;
      found->path = path;
      found->damage =
          std::string(ReadBackupNote(files, path).status().message());
    }
    backups.push_back(*std::move(found));
  }
  std::stable_sort(backups.begin(), backups.end(),
                   [](const Backup& a, const Backup& b) {
                     return a.made_at_micros < b.made_at_micros;
                   });
  return backups;
}

absl::Status CheckSizes(rocksdb::FileSystem* files, const std::string& path,
                        const BackupNote& note) {
  for (const NotedFile& file : note.files) {
    const std::string file_path = absl::StrCat(path, "/", file.path);
    const absl::StatusOr<Entry> entry = LookAt(files, file_path);
    if (absl::IsNotFound(entry.status())) {
      return absl::DataLossError(
          absl::StrCat("\"", file_path, "\" is missing"));
    }
    CKPTDB_RETURN_IF_ERROR(entry.status());
    if (entry->bytes == file.bytes) continue;
    return absl::DataLossError(absl::StrCat("\"", file_path, "\" has ",
                                            entry->bytes, " bytes, expected ",
                                            file.bytes));
  }
  return absl::OkStatus();
}

absl::Status OtherChecksum(const std::string& path) {
  return absl::DataLossError(absl::StrCat(
      "\"", path, "\" has another checksum than when it was copied"));
}

absl::StatusOr<FolderLock> FolderLock::Take(const std::string& folder) {
  rocksdb::FileLock* lock = nullptr;
  const rocksdb::IOStatus status =
      Environment::Default()->file_system()->LockFile(
          absl::StrCat(folder, "/", kFolderLockName), rocksdb::IOOptions(),
          &lock, nullptr);
  if (status.IsBusy()) {
    return absl::UnavailableError(
        absl::StrCat("another process is writing to \"", folder,
                     "\"; wait until it has finished"));
  }
  CKPTDB_RETURN_IF_ERROR(
      FromRocks(status, absl::StrCat("locking \"", folder, "\"")));
  return FolderLock(lock);
}

FolderLock::~FolderLock() {
  if (lock_ == nullptr) return;
  Environment::Default()
      ->file_system()
      ->UnlockFile(lock_, rocksdb::IOOptions(), nullptr)
      .PermitUncheckedError();
}

}  // namespace ckptdb::internal
