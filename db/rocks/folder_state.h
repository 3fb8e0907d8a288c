// A look at the folder of a database, which tells later whether anything was
// written to it since; internal to db/.
#ifndef CKPTDB_DB_ROCKS_FOLDER_STATE_H_
#define CKPTDB_DB_ROCKS_FOLDER_STATE_H_

#include <rocksdb/file_system.h>

#include <string>

#include "absl/status/statusor.h"

namespace ckptdb::internal {

// The names and sizes of files that only grow, and whose names are never used
// again.
struct FolderState {
  std::string manifest;  // the one in use
  std::string logs;
  std::string log_names;  // without sizes

  friend bool operator==(const FolderState&, const FolderState&) = default;
};

// Files that are removed while it looks are left out. The next look differs
// then.
absl::StatusOr<FolderState> LookAtFolder(rocksdb::FileSystem* files,
                                         const std::string& path);

}  // namespace ckptdb::internal

#endif  // CKPTDB_DB_ROCKS_FOLDER_STATE_H_
