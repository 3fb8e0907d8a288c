// SPDX-License-Identifier: Apache-2.0
#include "tools/files/array.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace ckptdb::tool {

absl::StatusOr<ArraySpec> MakeArraySpec(std::string name, DType dtype,
                                        Shape shape) {
  const uint32_t element_bytes = DTypeBytes(dtype);
  const auto count = ElementCount(shape, element_bytes);
  if (!count.ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat("\"", name, "\": ", count.status().message()));
  }
  const uint64_t bytes = static_cast<uint64_t>(*count) * element_bytes;
  return ArraySpec{std::move(name), dtype, std::move(shape), bytes};
}

}  // namespace ckptdb::tool
