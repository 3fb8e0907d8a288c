// Small files and folders through a rocksdb::FileSystem; internal to db/.
#ifndef CKPTDB_DB_FILES_H_
#define CKPTDB_DB_FILES_H_

#include <rocksdb/file_system.h>

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace ckptdb::internal {

// The folder that a path names something in.
inline std::string ParentFolder(const std::string& path) {
  return path.substr(0, path.rfind('/'));
}

// NotFound, or another error naming the path.
absl::StatusOr<std::string> ReadFile(rocksdb::FileSystem* files,
                                     const std::string& path);

// Replaces the file in one step, by renaming a temporary one beside it. Synced
// only when asked to.
absl::Status ReplaceFile(rocksdb::FileSystem* files, const std::string& path,
                         absl::string_view bytes, bool sync);

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

// Removes a folder and all below it; it is no error when there is none.
absl::Status RemoveTree(rocksdb::FileSystem* files, const std::string& path);

// Bytes of all files below a folder.
absl::StatusOr<uint64_t> TreeBytes(rocksdb::FileSystem* files,
                                   const std::string& path);

absl::StatusOr<uint64_t> FreeBytes(rocksdb::FileSystem* files,
                                   const std::string& path);

// ResourceExhausted with both numbers when fewer than `needed` + `reserve`
// bytes are free at `path`.
absl::Status CheckFreeBytes(rocksdb::FileSystem* files, const std::string& path,
                            uint64_t needed, uint64_t reserve);

}  // namespace ckptdb::internal

#endif  // CKPTDB_DB_FILES_H_
