#include "ckptdb/db/store_path.h"

#include <filesystem>
#include <system_error>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "ckptdb/db/environment.h"

namespace ckptdb::internal {
namespace {

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

std::string WithoutTrailingSlashes(std::string path) {
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  return path;
}

}  // namespace

absl::StatusOr<std::string> ResolveStorePath(
    absl::string_view path, const std::shared_ptr<Environment>& environment) {
  if (path.empty()) return absl::InvalidArgumentError("path \"\" is empty");
  const size_t nul = path.find('\0');
  if (nul != absl::string_view::npos) {
    return absl::InvalidArgumentError(
        absl::StrCat("path \"", path.substr(0, nul),
                     "...\" has a NUL byte at position ", nul));
  }
  if (environment != nullptr && !environment->on_disk()) {
    return WithoutTrailingSlashes(std::string(path));
  }
  std::error_code error;
  const auto absolute = std::filesystem::absolute(std::string(path), error);
  if (error) return Failure(path, error);
  const auto resolved = std::filesystem::weakly_canonical(absolute, error);
  if (error) return Failure(path, error);
  return WithoutTrailingSlashes(resolved.lexically_normal().string());
}

}  // namespace ckptdb::internal
