// SPDX-License-Identifier: Apache-2.0
#include "manager/ranks/packed_values.h"

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "manager/ranks/message_codec.h"

namespace ckptdb::internal {

std::string PackValues(const std::vector<std::string>& values) {
  size_t bytes = sizeof(uint64_t);
  for (const std::string& value : values) {
    bytes += sizeof(uint64_t) + value.size();
  }
  return EncodeMessage(values, bytes);
}

// Skips the values before it without copying them.
absl::StatusOr<std::string> UnpackValue(absl::string_view packed,
                                        size_t index) {
  MessageReader reader(packed);
  uint64_t count = 0;
  absl::string_view value;
  reader.Get(&count);
  for (size_t i = 0; i <= index && i < count; ++i) reader.Get(&value);
  if (reader.ok() && index < count) return std::string(value);
  return absl::InternalError(absl::StrCat("cannot decode value ", index, " of ",
                                          packed.size(),
                                          " bytes of packed values"));
}

absl::Status WrongValueCount(absl::string_view function, size_t values,
                             uint32_t world_size, absl::string_view tag) {
  return absl::InvalidArgumentError(
      absl::StrCat("Coordinator::", function, ": ", values,
                   " values, expected one for each of the ", world_size,
                   " ranks, at \"", tag, "\""));
}

}  // namespace ckptdb::internal
