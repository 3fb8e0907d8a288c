// SPDX-License-Identifier: Apache-2.0
#include "tools/files/inside_folder.h"

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "schema/status.h"
#include "schema/types.h"
#include "tools/files/file_error.h"

namespace ckptdb::tool {
namespace {

namespace fs = std::filesystem;

absl::StatusOr<fs::path> Resolved(const fs::path& path) {
  std::error_code error;
  fs::path resolved = fs::canonical(path, error);
  if (!error) return resolved;
  errno = error.value();
  return FileError("open", path.string());
}

// Returns the folder "blobs" of a resolved snapshot in Hugging Face's cache, or
// an empty path for other folders.
fs::path BlobsOf(const fs::path& folder) {
  for (fs::path at = folder; at.has_relative_path(); at = at.parent_path()) {
    if (at.filename() == "snapshots") return at.parent_path() / "blobs";
  }
  return {};
}

}  // namespace

absl::Status CheckInside(const std::string& folder, const std::string& name) {
  const fs::path given = folder.empty() ? "." : folder;
  CKPTDB_ASSIGN_OR_RETURN(const fs::path inside, Resolved(given));
  CKPTDB_ASSIGN_OR_RETURN(const fs::path file, Resolved(given / name));
  const auto differ =
      std::mismatch(inside.begin(), inside.end(), file.begin(), file.end());
  if (differ.first == inside.end()) return absl::OkStatus();
  if (file.parent_path() == BlobsOf(inside)) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "\"", Printable((given / name).string()),
      "\" is a link out of the folder, to \"", Printable(file.string()),
      "\"; if you trust it, copy the folder with \"cp -rL\", which replaces "
      "links by files, and import the copy"));
}

}  // namespace ckptdb::tool
