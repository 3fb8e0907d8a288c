// Small files and folders through a rocksdb::FileSystem; internal to db/.
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
#include "ckptdb/db/disk/disk_file_system.h"

namespace ckptdb::internal {

// Returns the folder in which a path names something.
inline std::string ParentFolder(const std::string& path) {
  return path.substr(0, path.rfind('/'));
}

// Returns what is at the path. A link is not followed where `files` is the
// machine's file system. Returns NotFound, or another error naming the path.
absl::StatusOr<Entry> LookAt(rocksdb::FileSystem* files,
                             const std::string& path);

// The limit for files that are read as a whole. Leases and notes are far
// smaller.
inline constexpr uint64_t kMaxSmallFileBytes = uint64_t{1} << 20;

// Returns the bytes of a file. Returns FailedPrecondition for what is no
// regular file, and for a file of more than `max_bytes`; NotFound, or another
// error naming the path.
absl::StatusOr<std::string> ReadFile(rocksdb::FileSystem* files,
                                     const std::string& path,
                                     uint64_t max_bytes = kMaxSmallFileBytes);

// Replaces the file in one step, by renaming a temporary one beside it, which
// has a name that nobody can know before. It is durable on return with `sync`.
absl::Status ReplaceFile(rocksdb::FileSystem* files, const std::string& path,
                         absl::string_view bytes, bool sync);

// Makes the names in a folder durable.
absl::Status SyncFolder(rocksdb::FileSystem* files, const std::string& path);

// Returns whether ReplaceFile gives a temporary file a name like this.
bool IsTemporaryName(absl::string_view name);

// Returns whether nobody writes to the file any more, by when that was last
// done: more than kTemporarySeconds ago, or as far in the future.
inline constexpr int64_t kTemporarySeconds = 3600;
bool IsAbandoned(const Entry& entry, int64_t now_micros);

// Returns whether there is anything at the path, and an error when that cannot
// be told.
absl::StatusOr<bool> Exists(rocksdb::FileSystem* files,
                            const std::string& path);

// Returns the names in a folder, sorted, without "." and ".."; none when the
// folder is missing. Of a folder with more than `limit` names it returns some,
// and takes no longer for the others.
inline constexpr size_t kAllNames = std::numeric_limits<size_t>::max();
absl::StatusOr<std::vector<std::string>> ListFolder(rocksdb::FileSystem* files,
                                                    const std::string& path,
                                                    size_t limit = kAllNames);

// Makes the folder and those above it.
absl::Status MakeFolders(rocksdb::FileSystem* files, const std::string& path);

// Removes a file; it is no error when there is none.
absl::Status RemoveFile(rocksdb::FileSystem* files, const std::string& path);

// Removes what is at the path, of a folder all that is below it; it is no error
// when there is nothing. Links are removed, and not followed, and a mount point
// stays with all that is in it. What can be removed goes, whatever cannot: the
// error is of the first that stays. Returns Unavailable if somebody goes on
// writing there.
absl::Status RemoveTree(rocksdb::FileSystem* files, const std::string& path);

// Calls `visit` with all that is below a folder, folders before what they hold,
// with paths below it: "db/CURRENT". What is removed meanwhile may be left out.
// A folder that cannot be listed, and what cannot be looked at, is visited with
// the error, and the others are visited all the same.
using VisitEntry = std::function<void(const std::string& path,
                                      const absl::StatusOr<Entry>& entry)>;
void VisitTree(rocksdb::FileSystem* files, const std::string& path,
               const VisitEntry& visit);

// Returns how many bytes may still be written at `path`, a folder of a store in
// use. Returns FailedPrecondition if it is gone.
absl::StatusOr<uint64_t> FreeBytes(rocksdb::FileSystem* files,
                                   const std::string& path);

// Returns ResourceExhausted with both numbers if fewer than `needed` +
// `reserve` bytes are free at `path`. Other errors are those of FreeBytes.
absl::Status CheckDiskSpace(rocksdb::FileSystem* files, const std::string& path,
                            uint64_t needed, uint64_t reserve);

}  // namespace ckptdb::internal

#endif  // CKPTDB_DB_DISK_FILES_H_
