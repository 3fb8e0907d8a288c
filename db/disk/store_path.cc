// SPDX-License-Identifier: Apache-2.0
#include "db/disk/store_path.h"

#include "absl/status/status.h"
#include "db/base/resolve_path.h"
#include "db/base/url_stores.h"
#include "db/disk/environment.h"
#include "schema/status.h"

namespace ckptdb::internal {

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
