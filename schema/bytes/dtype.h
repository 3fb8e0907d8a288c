// SPDX-License-Identifier: Apache-2.0
// Stored element types.
#ifndef CKPTDB_SCHEMA_BYTES_DTYPE_H_
#define CKPTDB_SCHEMA_BYTES_DTYPE_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "schema/types.h"

namespace ckptdb {

// Returns DataLoss for a stored number that is not a dtype.
absl::StatusOr<DType> DTypeFromStored(uint8_t number);

}  // namespace ckptdb

#endif  // CKPTDB_SCHEMA_BYTES_DTYPE_H_
