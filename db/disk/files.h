// Small files and folders through a rocksdb::FileSystem; internal to db/.
#ifndef CKPTDB_DB_DISK_FILES_H_
#define CKPTDB_DB_DISK_FILES_H_

#include <rocksdb/file_system.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "ckptdb/db/disk/disk_file_system.h"

namespace ckptdb::internal {

// The folder that a path names something in.
inline std::string ParentFolder(const std::string& path) {
  return path.substr(0, path.rfind('/'));
}

// What is at the path; a link is not followed where `files` is the machine's
// file system. NotFound, or another error naming the path.
absl::StatusOr<Entry> LookAt(rocksdb::FileSystem* files,
                             const std::string& path);

// Of a file that is read as a whole: leases and notes have far less.
inline constexpr uint64_t kMaxSmallFileBytes = uint64_t{1} << 20;

// FailedPrecondition for what is no regular file, and for a file of more than
// `max_bytes`; NotFound, or another error naming the path.
absl::StatusOr<std::string> ReadFile(rocksdb::FileSystem* files,
                                     const std::string& path,
                                     uint64_t max_bytes = kMaxSmallFileBytes);

// Replaces the file in one step, by renaming a temporary one beside it, which
// has a name that nobody can know before. Synced only when asked to.
absl::Status ReplaceFile(rocksdb::FileSystem* files, const std::string& path,
                         absl::string_view bytes, bool sync);

// Makes the names in a folder durable.
absl::Status SyncFolder(rocksdb::FileSystem* files, const std::string& path);

// Whether ReplaceFile gives a temporary file a name like this.
bool IsTemporaryName(absl::string_view name);

// Whether nobody writes to the file any more, going by when that was last done:
// kTemporarySeconds ago, or later than now.
inline constexpr int64_t kTemporarySeconds = 3600;
bool IsAbandoned(const Entry& entry, int64_t now_micros);

// False when there is none; an error when that cannot be told.
absl::StatusOr<bool> Exists(rocksdb::FileSystem* files,
                            const std::string& path);

// Names in a folder, sorted, without "." and ".."; none when it is missing.
absl::StatusOr<std::vector<std::string>> ListFolder(rocksdb::FileSystem* files,
                                                    const std::string& path);

// Makes the folder and those above it.
absl::Status MakeFolders(rocksdb::FileSystem* files, const std::string& path);

// Removes a file; it is no error when there is none.
absl::Status RemoveFile(rocksdb::FileSystem* files, const std::string& path);

// Removes what is at the path, of a folder all that is below it; it is no error
// when there is nothing. Links are removed, and not followed, and a mount point
// stays with all that is in it. What can be removed goes, whatever cannot: the
// error is of the first that stays. Unavailable when somebody goes on writing
// there.
absl::Status RemoveTree(rocksdb::FileSystem* files, const std::string& path);

// Calls `visit` with all that is below a folder, folders before what they hold,
// with paths below it: "db/CURRENT". What goes meanwhile may be left out. With
// an error for a folder that cannot be listed and for what cannot be looked at;
// it goes on with the others.
using VisitEntry = std::function<void(const std::string& path,
                                      const absl::StatusOr<Entry>& entry)>;
void VisitTree(rocksdb::FileSystem* files, const std::string& path,
               const VisitEntry& visit);

// That may still be written.
absl::StatusOr<uint64_t> FreeBytes(rocksdb::FileSystem* files,
                                   const std::string& path);

// ResourceExhausted with both numbers when fewer than `needed` + `reserve`
// bytes are free at `path`.
absl::Status CheckFreeBytes(rocksdb::FileSystem* files, const std::string& path,
                            uint64_t needed, uint64_t reserve);

}  // namespace ckptdb::internal

#endif  // CKPTDB_DB_DISK_FILES_H_
