// SPDX-License-Identifier: Apache-2.0
#include "db/rocks/live_manifest.h"

#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "db/base/paths.h"
#include "db/disk/disk_file_system.h"
#include "db/disk/files.h"
#include "schema/status.h"

namespace ckptdb::internal {
namespace {

absl::Status RemovedError(const std::string& path) {
  return absl::FailedPreconditionError(absl::StrCat(
      "\"", path,
      "\" was removed while the store was open, so its steps cannot be opened "
      "again; close it, then run \"ckptdb repair\", restore a backup or save "
      "to another folder"));
}

absl::Status ReplacedError(const std::string& path, const std::string& store) {
  return absl::FailedPreconditionError(absl::StrCat(
      "\"", path,
      "\" was replaced while the store was open, such as by a copy "
      "of its folder, and is no longer written to; close the store, move the "
      "folder with the newest steps to \"",
      store, "\", and open it again"));
}

}  // namespace

LiveManifest::LiveManifest(std::shared_ptr<rocksdb::FileSystem> files,
                           std::string store)
    : files_(std::move(files)),
      store_(std::move(store)),
      on_disk_(files_->CheckedCast<DiskFileSystem>() != nullptr) {}

absl::Status LiveManifest::Created(const std::string& path) {
  if (!on_disk_) return absl::OkStatus();
  const MutexLock lock(&mutex_);
  CKPTDB_ASSIGN_OR_RETURN(const Entry entry, LookAt(files_.get(), path));
  path_ = path;
  inode_ = entry.inode;
  return absl::OkStatus();
}

void LiveManifest::Removing(const std::string& path) {
  const MutexLock lock(&mutex_);
  if (path == path_) path_.clear();
}

void LiveManifest::Named() {
  const MutexLock lock(&mutex_);
  named_ = true;
}

absl::Status LiveManifest::Check() const {
  if (!on_disk_) return absl::OkStatus();
  const MutexLock lock(&mutex_);
  absl::Status status = CheckAll();
  if (status.ok()) return status;
  const bool moved = absl::IsNotFound(LookAt(files_.get(), store_).status());
  return moved ? absl::OkStatus() : status;
}

absl::Status LiveManifest::CheckAll() const {
  if (!path_.empty()) {
    const absl::StatusOr<Entry> entry = LookAt(files_.get(), path_);
    if (absl::IsNotFound(entry.status())) return RemovedError(path_);
    CKPTDB_RETURN_IF_ERROR(entry.status());
    if (entry->inode != inode_) return ReplacedError(path_, store_);
  }
  if (!named_) return absl::OkStatus();
  const std::string current = DatabasePath(store_) + "/CURRENT";
  const absl::Status status = LookAt(files_.get(), current).status();
  return absl::IsNotFound(status) ? RemovedError(current) : status;
}

}  // namespace ckptdb::internal
