// SPDX-License-Identifier: Apache-2.0
#include "db/transfer/unfinished_folder.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "db/disk/environment.h"
#include "db/disk/files.h"
#include "db/options.h"
#include "schema/status.h"

namespace ckptdb::internal {
namespace {

constexpr char kSuffix[] = ".unfinished";
constexpr char kDownloadsName[] = "files";

// Whether an interrupted call may leave this entry.
bool IsOwnName(absl::string_view name) {
  return name == kFolderLockName || name == kDownloadsName ||
         name == kBuildingName || name == kLinksName;
}

absl::Status CheckIsRemainder(rocksdb::FileSystem* files,
                              const std::string& path) {
  CKPTDB_ASSIGN_OR_RETURN(const auto names, ListFolder(files, path));
  for (const std::string& name : names) {
    if (IsOwnName(name)) continue;
    return absl::FailedPreconditionError(
        absl::StrCat("\"", path, "/", name,
                     "\" is not part of an interrupted fetch; move it away, "
                     "because files are downloaded to that folder"));
  }
  return absl::OkStatus();
}

FileModes DefaultModes() {
  const StoreOptions options;
  return {options.directory_mode, options.file_mode, /*apply=*/true};
}

}  // namespace

UnfinishedFolder::UnfinishedFolder(const std::string& path)
    : path_(path + kSuffix),
      downloads_(absl::StrCat(path_, "/", kDownloadsName)),
      files_(std::make_unique<GuardedFileSystem>(
          Environment::Default()->file_system(), DefaultModes())) {}

absl::StatusOr<std::unique_ptr<UnfinishedFolder>> UnfinishedFolder::Take(
    const std::string& path) {
  std::unique_ptr<UnfinishedFolder> folder(new UnfinishedFolder(path));
  CKPTDB_RETURN_IF_ERROR(MakeFolders(folder->files(), folder->path_));
  CKPTDB_RETURN_IF_ERROR(CheckIsRemainder(folder->files(), folder->path_));
  CKPTDB_ASSIGN_OR_RETURN(FolderLock lock, FolderLock::Take(folder->path_));
  folder->lock_.emplace(std::move(lock));
  CKPTDB_RETURN_IF_ERROR(MakeFolders(folder->files(), folder->downloads_));
  return folder;
}

absl::Status UnfinishedFolder::RemoveLeftover(const std::string& path) {
  CKPTDB_ASSIGN_OR_RETURN(
      const bool exists,
      Exists(Environment::Default()->file_system().get(), path + kSuffix));
  if (!exists) return absl::OkStatus();
  CKPTDB_ASSIGN_OR_RETURN(const auto folder, Take(path));
  return folder->Remove();
}

absl::Status UnfinishedFolder::Remove() {
  CKPTDB_RETURN_IF_ERROR(RemoveTree(files(), downloads_));
  lock_.reset();
  return RemoveTree(files(), path_);
}

}  // namespace ckptdb::internal
