// SPDX-License-Identifier: Apache-2.0
#include "tools/outside_store.h"

#include <algorithm>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "schema/status.h"

namespace ckptdb::tool {

namespace fs = std::filesystem;

namespace {

// Returns InvalidArgument, naming `path`, if the folder `at` is a store or
// below one.
absl::Status CheckNoStoreAt(fs::path at, const std::string& path) {
  for (; at.has_relative_path(); at = at.parent_path()) {
    std::error_code error;  // a folder that cannot be searched is no store
    if (!fs::exists(at / "db" / "CURRENT", error)) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("\"", at.string(), "\" is a store, and \"", path,
                     "\" lies inside it; choose a folder outside of it"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<fs::path> ResolveOutput(const std::string& path) {
  std::error_code error;
  fs::path resolved = fs::absolute(path, error);
  if (!error) resolved = fs::weakly_canonical(resolved, error);
  if (!error) return resolved;
  return absl::ErrnoToStatus(
      error.value(),
      absl::StrCat("the path \"", path, "\" cannot be resolved"));
}

absl::Status CheckNotWithinStore(const std::string& path) {
  CKPTDB_ASSIGN_OR_RETURN(const fs::path target, ResolveOutput(path));
  return CheckNoStoreAt(target.parent_path(), path);
}

absl::Status CheckOutsideStore(const std::string& path,
                               const std::string& store) {
  CKPTDB_ASSIGN_OR_RETURN(const fs::path target, ResolveOutput(path));
  std::error_code error;
  const fs::path folder = fs::canonical(store, error);
  // The path cannot be below a folder that does not exist.
  if (error) return CheckNoStoreAt(target, path);
  const auto [end, at] =
      std::mismatch(folder.begin(), folder.end(), target.begin(), target.end());
  if (end != folder.end()) return CheckNoStoreAt(target, path);
  return absl::InvalidArgumentError(
      absl::StrCat("\"", path, "\" is within the store \"", store,
                   "\"; choose a place outside of it"));
}

}  // namespace ckptdb::tool
