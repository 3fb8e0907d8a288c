#include "ckptdb/manager/ranks/status_bytes.h"

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace ckptdb::internal {

// "5 no such step": the code, a space, the message; OK is empty.
std::string EncodeStatus(const absl::Status& status) {
  if (status.ok()) return "";
  return absl::StrCat(static_cast<int>(status.code()), " ", status.message());
}

absl::Status DecodeStatus(absl::string_view text) {
  if (text.empty()) return absl::OkStatus();
  const size_t space = text.find(' ');
  int code = 0;
  if (space == absl::string_view::npos ||
      !absl::SimpleAtoi(text.substr(0, space), &code) || code <= 0) {
    return absl::InternalError(
        absl::StrCat("cannot decode a status of another rank: \"", text, "\""));
  }
  return absl::Status(static_cast<absl::StatusCode>(code),
                      text.substr(space + 1));
}

}  // namespace ckptdb::internal
