// SPDX-License-Identifier: Apache-2.0
#include "tools/files/file_error.h"

#include <cerrno>
#include <system_error>

#include "absl/strings/str_cat.h"

namespace ckptdb::tool {
namespace {

absl::StatusCode FileErrorCode(int error) {
  switch (error) {
    case ENOENT:
      return absl::StatusCode::kNotFound;
    case EEXIST:
      return absl::StatusCode::kAlreadyExists;
    case EACCES:
    case EPERM:
    case EROFS:
      return absl::StatusCode::kPermissionDenied;
    case ENOSPC:
    case EDQUOT:
    case EFBIG:
      return absl::StatusCode::kResourceExhausted;
    default:
      return absl::StatusCode::kInternal;
  }
}

}  // namespace

absl::Status FileError(absl::string_view action, const std::string& path) {
  const int error = errno;
  return {FileErrorCode(error),
          absl::StrCat("cannot ", action, " \"", path,
                       "\": ", std::generic_category().message(error))};
}

}  // namespace ckptdb::tool
