// SPDX-License-Identifier: Apache-2.0
// Packs several values into one; internal to manager/.
#ifndef CKPTDB_MANAGER_RANKS_PACKED_VALUES_H_
#define CKPTDB_MANAGER_RANKS_PACKED_VALUES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace ckptdb::internal {

std::string PackValues(const std::vector<std::string>& values);

// Returns the value at `index`, or Internal for bytes that PackValues did not
// produce, or that hold fewer values.
absl::StatusOr<std::string> UnpackValue(absl::string_view packed, size_t index);

// Returns the error of a function that was not given one value for each rank.
absl::Status WrongValueCount(absl::string_view function, size_t values,
                             uint32_t world_size, absl::string_view tag);

}  // namespace ckptdb::internal

#endif  // CKPTDB_MANAGER_RANKS_PACKED_VALUES_H_
