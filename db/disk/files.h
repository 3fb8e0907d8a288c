// SPDX-License-Identifier: Apache-2.0
// Accesses small files and folders through a rocksdb::FileSystem; internal to
// db/.
#ifndef CKPTDB_DB_DISK_FILES_H_
#define CKPTDB_DB_DISK_FILES_H_

#include <rocksdb/file_system.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "db/disk/disk_file_system.h"

namespace ckptdb::internal {

// Returns the folder that contains the path's last component.
inline std::string ParentFolder(const std::string& path) {
  return path.substr(0, path.rfind('/'));
}

// Returns the entry at the path. If `files` is the machine's file system, links
// are not followed. Returns NotFound, or another error naming the path.
absl::StatusOr<Entry> LookAt(rocksdb::FileSystem* files,
                             const std::string& path);

// The limit for files that are read whole. Leases and notes are far smaller.
inline constexpr uint64_t kMaxSmallFileBytes = uint64_t{1} << 20;

// Returns the bytes of a file. Returns FailedPrecondition if it is not a
// regular file or has more than `max_bytes`; NotFound, or another error naming
// the path.
absl::StatusOr<std::string> ReadFile(rocksdb::FileSystem* files,
                                     const std::string& path,
                                     uint64_t max_bytes = kMaxSmallFileBytes);

// Replaces the file atomically, by renaming a temporary one with an
// unpredictable name in the same folder. With `sync`, it is durable on return.
absl::Status ReplaceFile(rocksdb::FileSystem* files, const std::string& path,
                         absl::string_view bytes, bool sync);

// Makes the names in a folder durable.
absl::Status SyncFolder(rocksdb::FileSystem* files, const std::string& path);

// Returns whether ReplaceFile gives temporary files names like this.
bool IsTemporaryName(absl::string_view name);

// Returns whether the file, by its modification time, is no longer written to:
// that time is more than kTemporarySeconds ago, or as far in the future.
inline constexpr int64_t kTemporarySeconds = 3600;
bool IsAbandoned(const Entry& entry, int64_t now_micros);

// Returns whether the path exists, or an error if that cannot be determined.
absl::StatusOr<bool> Exists(rocksdb::FileSystem* files,
                            const std::string& path);

// Returns the names in a folder, sorted, without "." and ".."; none if the
// folder is missing. If it has more than `limit` names, returns some of them
// without reading the others.
inline constexpr size_t kAllNames = std::numeric_limits<size_t>::max();
absl::StatusOr<std::vector<std::string>> ListFolder(rocksdb::FileSystem* files,
                                                    const std::string& path,
                                                    size_t limit = kAllNames);

// Creates the folder and its missing parents.
absl::Status MakeFolders(rocksdb::FileSystem* files, const std::string& path);

// Removes a file; a missing file is not an error.
absl::Status RemoveFile(rocksdb::FileSystem* files, const std::string& path);

// Removes the entry at the path, for a folder with everything below it; a
// missing path is not an error. Removes links without following them, and
// leaves mount points with their content. Continues after an error and returns
// the first one. Returns Unavailable if somebody keeps writing there.
absl::Status RemoveTree(rocksdb::FileSystem* files, const std::string& path);

// Calls `visit` with every entry below a folder, folders before their content,
// with paths relative to it: "db/CURRENT". Entries that are removed meanwhile
// may be left out. A folder that cannot be listed, and an entry that cannot be
// examined, is visited with the error; the visit then continues.
using VisitEntry = std::function<void(const std::string& path,
                                      const absl::StatusOr<Entry>& entry)>;
void VisitTree(rocksdb::FileSystem* files, const std::string& path,
               const VisitEntry& visit);

// Returns how many bytes may still be written at `path`, a folder of a store in
// use. Returns FailedPrecondition if it no longer exists.
absl::StatusOr<uint64_t> FreeBytes(rocksdb::FileSystem* files,
                                   const std::string& path);

// Returns ResourceExhausted with both numbers if fewer than `needed` +
// `reserve` bytes are free at `path`. Other errors are those of FreeBytes.
absl::Status CheckDiskSpace(rocksdb::FileSystem* files, const std::string& path,
                            uint64_t needed, uint64_t reserve);

}  // namespace ckptdb::internal

#endif  // CKPTDB_DB_DISK_FILES_H_
