// SPDX-License-Identifier: Apache-2.0
// The folder PATH.unfinished, where a store's files arrive; internal to
// db/transfer/.
#ifndef CKPTDB_DB_TRANSFER_UNFINISHED_FOLDER_H_
#define CKPTDB_DB_TRANSFER_UNFINISHED_FOLDER_H_

#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "db/rocks/guarded_file_system.h"
#include "db/store/backup_folder.h"

namespace ckptdb::internal {

// Folders in it, besides that of downloads.
inline constexpr char kBuildingName[] = "store";
inline constexpr char kLinksName[] = "links";

// Belongs to one process at a time. It stays if that process ends before
// Remove, so that the next one finds the files in downloads().
class UnfinishedFolder {
 public:
  // Creates the folder beside the store at `path`, which is resolved and need
  // not exist. Returns Unavailable while another process uses it, and
  // FailedPrecondition if it has anything else than what a call leaves there.
  static absl::StatusOr<std::unique_ptr<UnfinishedFolder>> Take(
      const std::string& path);
  // Removes the folder if it exists, and if no process uses it.
  static absl::Status RemoveLeftover(const std::string& path);

  const std::string& path() const { return path_; }
  // A folder for data files, on the file system of the store.
  const std::string& downloads() const { return downloads_; }
  // Gives files and folders the modes of a store.
  GuardedFileSystem* files() const { return files_.get(); }

  absl::Status Remove();

 private:
  explicit UnfinishedFolder(const std::string& path);

  const std::string path_;
  const std::string downloads_;
  const std::unique_ptr<GuardedFileSystem> files_;
  std::optional<FolderLock> lock_;
};

}  // namespace ckptdb::internal

#endif  // CKPTDB_DB_TRANSFER_UNFINISHED_FOLDER_H_
