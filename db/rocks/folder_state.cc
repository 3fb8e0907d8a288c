// SPDX-License-Identifier: Apache-2.0
#include "db/rocks/folder_state.h"

#include <cstdint>
#include <vector>

#include "absl/strings/str_cat.h"
#include "db/disk/files.h"
#include "db/disk/rocks_status.h"
#include "db/quirks/file_names.h"
#include "schema/status.h"

namespace ckptdb::internal {
namespace {

// Returns "000012.log 4096 ", or nothing if the file does not exist.
absl::StatusOr<std::string> NameAndSize(rocksdb::FileSystem* files,
                                        const std::string& path,
                                        const std::string& name) {
  uint64_t bytes = 0;
  const rocksdb::IOStatus status = files->GetFileSize(
      absl::StrCat(path, "/", name), rocksdb::IOOptions(), &bytes, nullptr);
  if (status.IsPathNotFound() || status.IsNotFound()) return std::string();
  CKPTDB_RETURN_IF_ERROR(FromRocks(status, absl::StrCat(path, "/", name)));
  return absl::StrCat(name, " ", bytes, " ");
}

}  // namespace

absl::StatusOr<FolderState> ReadFolderState(rocksdb::FileSystem* files,
                                            const std::string& path) {
  FolderState state;
  CKPTDB_ASSIGN_OR_RETURN(std::string current,
                          ReadFile(files, path + "/CURRENT"));
  if (!current.empty() && current.back() == '\n') current.pop_back();
  // Every write changes the MANIFEST or the name or the size of a log (line 17
  // of docs/rocksdb.md), so an equal state means an unchanged database.
  CKPTDB_ASSIGN_OR_RETURN(state.manifest, NameAndSize(files, path, current));
  CKPTDB_ASSIGN_OR_RETURN(const std::vector<std::string> names,
                          ListFolder(files, path));
  for (const std::string& name : names) {
    if (!IsLog(name)) continue;
    CKPTDB_ASSIGN_OR_RETURN(const std::string log,
                            NameAndSize(files, path, name));
    state.logs += log;
    absl::StrAppend(&state.log_names, name, " ");
  }
  return state;
}

}  // namespace ckptdb::internal
