// SPDX-License-Identifier: Apache-2.0
#include "manager/ranks/message_codec.h"

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace ckptdb::internal {

std::string EncodeStatus(const absl::Status& status) {
  if (status.ok()) return "";
  return absl::StrCat(static_cast<int>(status.code()), " ", status.message());
}

absl::Status DecodeStatus(absl::string_view bytes) {
  if (bytes.empty()) return absl::OkStatus();
  const size_t space = bytes.find(' ');
  int code = 0;
  if (space == absl::string_view::npos ||
      !absl::SimpleAtoi(bytes.substr(0, space), &code) || code <= 0) {
    return absl::InternalError(absl::StrCat(
        "cannot decode the status of another rank: \"", bytes, "\""));
  }
  return absl::Status(static_cast<absl::StatusCode>(code),
                      bytes.substr(space + 1));
}

absl::Status CannotDecode(size_t bytes) {
  return absl::InternalError(
      absl::StrCat("cannot decode a message of ", bytes,
                   " bytes from another rank; all ranks must run the same "
                   "build"));
}

}  // namespace ckptdb::internal
