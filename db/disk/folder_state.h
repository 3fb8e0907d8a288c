// What tells of a database's folder whether anything was written to it since;
// internal to db/.
#ifndef CKPTDB_DB_DISK_FOLDER_STATE_H_
#define CKPTDB_DB_DISK_FOLDER_STATE_H_

#include <rocksdb/file_system.h>

#include <string>

#include "absl/status/statusor.h"

namespace ckptdb::internal {

// Names and sizes. These files only grow, and a name is not used again.
struct FolderState {
  std::string manifest;  // of the one in use
  std::string logs;
  std::string log_names;  // alone

  friend bool operator==(const FolderState&, const FolderState&) = default;
};

// Files that go while it looks are left out: the next look is different.
absl::StatusOr<FolderState> LookAtFolder(rocksdb::FileSystem* files,
                                         const std::string& path);

}  // namespace ckptdb::internal

#endif  // CKPTDB_DB_DISK_FOLDER_STATE_H_
