// Casts for who names places in words of its own; internal to the library.
#ifndef CKPTDB_SCHEMA_CAST_IN_RANGE_H_
#define CKPTDB_SCHEMA_CAST_IN_RANGE_H_

#include <cstddef>
#include <string>

#include "ckptdb/schema/dtype.h"

namespace ckptdb::internal {

// As CastElements, for dtypes that have a cast: how many elements it has cast
// until it met one that `to` does not have.
size_t CastWhileInRange(DType from, const void* in, DType to, void* out,
                        size_t elements);

// "300 of i32 is not in u8, 0 to 255": for the integer at `element`.
std::string NotInRange(DType from, const void* element, DType to);

}  // namespace ckptdb::internal

#endif  // CKPTDB_SCHEMA_CAST_IN_RANGE_H_
