// SPDX-License-Identifier: Apache-2.0
#include "db/store/store_names.h"

#include <algorithm>
#include <array>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "db/disk/files.h"
#include "db/rocks/find_database.h"
#include "db/store/backup_folder.h"
#include "schema/status.h"

namespace ckptdb::internal {
namespace {

constexpr std::array<const char*, 10> kStoreNames = {
    "LOCK",    "OWNER",  "SHIPPED", "WATERMARK", "db",
    "staging", "leases", "posts",   "SPARE",     kFolderLockName};

}  // namespace

bool IsStoreName(const std::string& name) {
  return std::find(kStoreNames.begin(), kStoreNames.end(), name) !=
         kStoreNames.end();
}

bool IsTemporaryNote(absl::string_view name) {
  return IsTemporaryName(name) && (absl::StartsWith(name, "OWNER.") ||
                                   absl::StartsWith(name, "SHIPPED.") ||
                                   absl::StartsWith(name, "WATERMARK."));
}

absl::Status CheckIsStore(const std::shared_ptr<rocksdb::FileSystem>& files,
                          const std::string& path) {
  CKPTDB_ASSIGN_OR_RETURN(const auto names, ListFolder(files.get(), path));
  for (const std::string& name : names) {
    if (IsStoreName(name) || IsTemporaryNote(name)) continue;
    return absl::FailedPreconditionError(absl::StrCat(
        "\"", path, "/", name,
        "\" does not belong to a store; move it away before replacing it"));
  }
  const absl::StatusOr<bool> found = FindDatabase(files, path);
  // A store without its CURRENT is damaged, and may be replaced.
  if (absl::IsDataLoss(found.status())) return absl::OkStatus();
  CKPTDB_RETURN_IF_ERROR(found.status());
  if (*found) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("\"", path, "\" is not a store, and is not replaced"));
}

}  // namespace ckptdb::internal
