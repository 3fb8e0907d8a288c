// SPDX-License-Identifier: Apache-2.0
#include "tools/outside_store.h"

#include <algorithm>
#include <filesystem>
#include <system_error>

#include "absl/strings/str_cat.h"

namespace ckptdb::tool {

absl::Status CheckOutsideStore(const std::string& path,
                               const std::string& store) {
  namespace fs = std::filesystem;
  std::error_code error;
  const fs::path folder = fs::canonical(store, error);
  // The path cannot be below a folder that does not exist.
  if (error) return absl::OkStatus();
  const fs::path target = fs::weakly_canonical(fs::absolute(path), error);
  if (error) return absl::OkStatus();
  const auto [end, at] =
      std::mismatch(folder.begin(), folder.end(), target.begin(), target.end());
  if (end != folder.end()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("\"", path, "\" is within the store \"", store,
                   "\"; choose a place outside of it"));
}

}  // namespace ckptdb::tool
