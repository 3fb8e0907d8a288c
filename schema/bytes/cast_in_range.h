// SPDX-License-Identifier: Apache-2.0
// Casts for callers that report the position of an element themselves; internal
// to the library.
#ifndef CKPTDB_SCHEMA_BYTES_CAST_IN_RANGE_H_
#define CKPTDB_SCHEMA_BYTES_CAST_IN_RANGE_H_

#include <cstddef>
#include <string>

#include "schema/types.h"

namespace ckptdb::internal {

// Casts like CastElements, for dtypes that can be cast, and returns the number
// of elements before the first that `to` cannot represent.
size_t CastWhileInRange(DType from, const void* in, DType to, void* out,
                        size_t elements);

// Describes the integer at `element`: "300 of i32 is out of range for u8, 0 to
// 255".
std::string NotInRange(DType from, const void* element, DType to);

}  // namespace ckptdb::internal

#endif  // CKPTDB_SCHEMA_BYTES_CAST_IN_RANGE_H_
