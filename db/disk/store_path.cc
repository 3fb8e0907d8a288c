// SPDX-License-Identifier: Apache-2.0
#include "db/disk/store_path.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <system_error>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "db/base/resolve_path.h"
#include "db/base/url_stores.h"
#include "db/disk/environment.h"
#include "schema/bytes/annotate.h"
#include "schema/status.h"

namespace ckptdb::internal {
namespace {

// Whether another user owns the file or folder and this process may not read or
// write it; sets *owner.
bool BelongsToAnother(const std::string& path, uid_t* owner) {
  struct stat found = {};
  if (::lstat(path.c_str(), &found) != 0) return false;
  *owner = found.st_uid;
  return found.st_uid != ::geteuid() &&
         ::faccessat(AT_FDCWD, path.c_str(), R_OK | W_OK, AT_EACCESS) != 0;
}

// The folder, and the files of the store and its database.
std::vector<std::string> FilesOf(const std::string& store) {
  std::vector<std::string> files = {store};
  for (const std::string& folder : {store, store + "/db"}) {
    std::error_code error;
    std::filesystem::directory_iterator entry(folder, error);
    while (!error && entry != std::filesystem::directory_iterator()) {
      files.push_back(entry->path().string());
      entry.increment(error);
    }
  }
  return files;
}

}  // namespace

absl::Status NameFileOfAnotherUser(const absl::Status& status,
                                   const std::string& path) {
  if (!absl::IsPermissionDenied(status)) return status;
  for (const std::string& file : FilesOf(path)) {
    uid_t owner = 0;
    if (!BelongsToAnother(file, &owner)) continue;
    const uid_t user = ::geteuid();
    return Reword(
        status, absl::StatusCode::kPermissionDenied,
        absl::StrCat(status.message(), "; \"", file, "\" belongs to user ",
                     owner, ", but this process runs as user ", user,
                     ": run \"chown -R ", user, " ", path, "\" as root"));
  }
  return status;
}

absl::StatusOr<std::string> ResolveStorePath(
    absl::string_view path,
    const std::shared_ptr<internal::Environment>& environment) {
  // Only paths of the machine have links and a current folder to resolve.
  if (environment == nullptr || environment->on_disk()) {
    if (IsUrl(path)) return NotAFolder(path);
    return ResolvePath(path);
  }
  CKPTDB_RETURN_IF_ERROR(CheckPath(path));
  return WithoutTrailingSlashes(path);
}

std::string ReplacedStorePath(const std::string& path) {
  return path + ".replaced";
}

}  // namespace ckptdb::internal
