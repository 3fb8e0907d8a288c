// SPDX-License-Identifier: Apache-2.0
// The file BACKUP of a backup, which lists its files; internal to db/.
#ifndef CKPTDB_DB_STORE_BACKUP_NOTE_H_
#define CKPTDB_DB_STORE_BACKUP_NOTE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "db/backup.h"
#include "rocksdb/file_system.h"

namespace ckptdb::internal {

struct NotedFile {
  std::string path;  // below the backup: "db/000012.sst"
  uint64_t bytes = 0;
  // XXH3-64 of a copied file. A linked file was not read; its blocks have
  // checksums.
  std::optional<uint64_t> hash;
  bool operator==(const NotedFile&) const = default;
};

struct BackupNote {
  Backup backup;  // without name, path and damage
  std::vector<NotedFile> files;
};

inline constexpr char kBackupNoteName[] = "BACKUP";
inline constexpr uint64_t kMaxBackupNoteBytes = uint64_t{1} << 30;

// Lines of text, the last one with the hash of the others.
std::string EncodeBackupNote(const BackupNote& note);
// Returns DataLoss naming the line that is damaged, and FailedPrecondition for
// a newer format.
absl::StatusOr<BackupNote> DecodeBackupNote(absl::string_view bytes);

// Returns FailedPrecondition for the folder of a backup. An owner or a post
// would change what the backup's list describes.
absl::Status CheckIsNoBackup(rocksdb::FileSystem* files,
                             const std::string& path);

}  // namespace ckptdb::internal

#endif  // CKPTDB_DB_STORE_BACKUP_NOTE_H_
