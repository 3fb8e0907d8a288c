// SPDX-License-Identifier: Apache-2.0
// The state of a database's folder, to detect later whether it was written to;
// internal to db/.
#ifndef CKPTDB_DB_ROCKS_FOLDER_STATE_H_
#define CKPTDB_DB_ROCKS_FOLDER_STATE_H_

#include <rocksdb/file_system.h>

#include <string>

#include "absl/status/statusor.h"

namespace ckptdb::internal {

// The names and sizes of files that only grow, and whose names are never
// reused.
struct FolderState {
  std::string manifest;  // the current one
  std::string logs;
  std::string log_names;  // without sizes

  friend bool operator==(const FolderState&, const FolderState&) = default;
};

// Leaves out files that are removed meanwhile. The next state then differs.
absl::StatusOr<FolderState> ReadFolderState(rocksdb::FileSystem* files,
                                            const std::string& path);

}  // namespace ckptdb::internal

#endif  // CKPTDB_DB_ROCKS_FOLDER_STATE_H_
