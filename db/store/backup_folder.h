// SPDX-License-Identifier: Apache-2.0
// Folders of backups and their lists of files; internal to db/.
#ifndef CKPTDB_DB_STORE_BACKUP_FOLDER_H_
#define CKPTDB_DB_STORE_BACKUP_FOLDER_H_

#include <rocksdb/file_system.h>

#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "db/backup.h"
#include "db/store/backup_note.h"

namespace ckptdb::internal {

// Returns NotFound if the folder has no list of files, and DataLoss if that is
// damaged.
absl::StatusOr<BackupNote> ReadBackupNote(rocksdb::FileSystem* files,
                                          const std::string& path);
absl::StatusOr<Backup> FindIn(rocksdb::FileSystem* files,
                              const std::string& path);
// Returns the backups in a folder, oldest first.
absl::StatusOr<std::vector<Backup>> ListIn(rocksdb::FileSystem* files,
                                           const std::string& folder);
// Returns DataLoss naming a file that is missing or has another size.
absl::Status CheckSizes(rocksdb::FileSystem* files, const std::string& path,
                        const BackupNote& note);
absl::Status OtherChecksum(const std::string& path);

// The right to write in a folder, until it is destroyed or the process ends.
class FolderLock {
 public:
  // Returns Unavailable if another process has it.
  static absl::StatusOr<FolderLock> Take(const std::string& folder);
  FolderLock(FolderLock&& other) noexcept
      : lock_(std::exchange(other.lock_, nullptr)) {}
  FolderLock& operator=(FolderLock&&) = delete;
  ~FolderLock();

 private:
  explicit FolderLock(rocksdb::FileLock* lock) : lock_(lock) {}
  rocksdb::FileLock* lock_;
};

// The name of its file.
inline constexpr char kFolderLockName[] = ".lock";

}  // namespace ckptdb::internal

#endif  // CKPTDB_DB_STORE_BACKUP_FOLDER_H_
