// SPDX-License-Identifier: Apache-2.0
#include "db/base/resolve_path.h"

#include <filesystem>
#include <system_error>

#include "absl/strings/str_cat.h"

namespace ckptdb::internal {
namespace {

// A path that can never be valid is the caller's error; errors that may
// disappear are Unavailable.
absl::StatusCode CodeOf(const std::error_code& error) {
  if (error == std::errc::permission_denied) {
    return absl::StatusCode::kPermissionDenied;
  }
  if (error == std::errc::filename_too_long ||
      error == std::errc::too_many_symbolic_link_levels) {
    return absl::StatusCode::kInvalidArgument;
  }
  if (error == std::errc::not_a_directory) {
    return absl::StatusCode::kFailedPrecondition;
  }
  return absl::StatusCode::kUnavailable;
}

absl::Status Failure(absl::string_view path, const std::error_code& error) {
  return absl::Status(CodeOf(error),
                      absl::StrCat("path \"", path, "\": ", error.message()));
}

// `resolved` has no links whose target exists, so any remaining link is
// dangling.
absl::Status CheckNoDanglingLink(absl::string_view path,
                                 const std::filesystem::path& resolved) {
  std::error_code error;
  std::filesystem::path part;
  for (const std::filesystem::path& name : resolved) {
    part /= name;
    const auto target = std::filesystem::read_symlink(part, error);
    if (error) continue;
    return absl::FailedPreconditionError(absl::StrCat(
        "path \"", path, "\": \"", part.string(), "\" is a symbolic link to \"",
        target.string(), "\", which does not exist"));
  }
  return absl::OkStatus();
}

}  // namespace

// A NUL would end the path for system calls, which would then open another one.
absl::Status CheckPath(absl::string_view path) {
  if (path.empty()) return absl::InvalidArgumentError("path \"\" is empty");
  const size_t nul = path.find('\0');
  if (nul == absl::string_view::npos) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("path \"", path.substr(0, nul),
                   "...\" has a NUL byte at position ", nul));
}

std::string WithoutTrailingSlashes(absl::string_view path) {
  while (path.size() > 1 && path.back() == '/') path.remove_suffix(1);
  return std::string(path);
}

absl::StatusOr<std::string> ResolvePath(absl::string_view path) {
  absl::Status checked = CheckPath(path);
  if (!checked.ok()) return checked;
  std::error_code error;
  const auto absolute = std::filesystem::absolute(std::string(path), error);
  if (error) return Failure(path, error);
  // Links are resolved as far as the path exists, so that a store that does not
  // exist yet also has one path.
  const auto resolved = std::filesystem::weakly_canonical(absolute, error);
  if (error) return Failure(path, error);
  absl::Status dangling = CheckNoDanglingLink(path, resolved);
  if (!dangling.ok()) return dangling;
  return WithoutTrailingSlashes(resolved.lexically_normal().string());
}

}  // namespace ckptdb::internal
