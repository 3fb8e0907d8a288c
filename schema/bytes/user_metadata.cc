// SPDX-License-Identifier: Apache-2.0
#include "schema/bytes/user_metadata.h"

#include <cstdint>

#include "absl/strings/str_cat.h"
#include "schema/bytes/names.h"
#include "schema/status.h"

namespace ckptdb {

absl::Status CheckUserMetadata(const UserMetadata& metadata) {
  uint64_t bytes = 0;
  for (const auto& [name, value] : metadata) {
    CKPTDB_RETURN_IF_ERROR(CheckName("metadata name", name));
    bytes += name.size() + value.size();
  }
  if (bytes <= kMaxMetadataBytes) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("user metadata takes ", bytes,
                                                 " bytes; the limit is ",
                                                 kMaxMetadataBytes));
}

}  // namespace ckptdb
