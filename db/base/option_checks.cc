// SPDX-License-Identifier: Apache-2.0
#include "db/base/option_checks.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "schema/status.h"

namespace ckptdb::internal {
namespace {

absl::Status CheckMode(absl::string_view name, uint32_t mode, uint32_t needed) {
  constexpr uint32_t kAllBits = 07777;
  if ((mode & needed) == needed && mode <= kAllBits) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrFormat(
      "%s is %#o; it must include %#o, which the store itself needs, and be at "
      "most %#o",
      name, mode, needed, kAllBits));
}

}  // namespace

absl::Status CheckThreads(absl::string_view name, int threads) {
  if (threads >= 1) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(name, " is ", threads, "; it must be at least 1"));
}

absl::Status CheckModes(absl::string_view where, uint32_t directory_mode,
                        uint32_t file_mode) {
  constexpr uint32_t kOwnersDirectory = 0700;
  constexpr uint32_t kOwnersFile = 0600;
  CKPTDB_RETURN_IF_ERROR(CheckMode(absl::StrCat(where, "directory_mode"),
                                   directory_mode, kOwnersDirectory));
  return CheckMode(absl::StrCat(where, "file_mode"), file_mode, kOwnersFile);
}

}  // namespace ckptdb::internal
