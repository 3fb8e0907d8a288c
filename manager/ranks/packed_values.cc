#include "ckptdb/manager/ranks/packed_values.h"

#include <cstring>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace ckptdb::internal {

std::string PackValues(const std::vector<std::string>& values) {
  size_t bytes = 0;
  for (const std::string& value : values) {
    bytes += sizeof(uint64_t) + value.size();
  }
  std::string packed;
  packed.reserve(bytes);
  for (const std::string& value : values) {
    const uint64_t size = value.size();
    packed.append(reinterpret_cast<const char*>(&size), sizeof(size));
    packed.append(value);
  }
  return packed;
}

absl::StatusOr<std::string> UnpackValue(absl::string_view packed,
                                        size_t index) {
  const size_t all = packed.size();
  for (size_t i = 0;; ++i) {
    uint64_t size = 0;
    if (packed.size() < sizeof(size)) break;
    std::memcpy(&size, packed.data(), sizeof(size));
    packed.remove_prefix(sizeof(size));
    if (size > packed.size()) break;
    if (i == index) return std::string(packed.substr(0, size));
    packed.remove_prefix(size);
  }
  return absl::InternalError(absl::StrCat("cannot decode value ", index, " of ",
                                          all, " bytes of packed values"));
}

absl::Status WrongValueCount(absl::string_view function, size_t values,
                             uint32_t world_size, absl::string_view tag) {
  return absl::InvalidArgumentError(
      absl::StrCat("Coordinator::", function, ": ", values,
                   " values, expected one for each of the ", world_size,
                   " ranks, at \"", tag, "\""));
}

}  // namespace ckptdb::internal
