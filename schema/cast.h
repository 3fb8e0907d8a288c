// Casts of elements from one dtype to another.
//
//   CanCast(DType::kBf16, DType::kF32)   == true
//   CanCast(DType::kF32, DType::kI32)    == false
//   CKPTDB_RETURN_IF_ERROR(CastElements(DType::kF32, in, DType::kBf16, out,
//                                       elements));
//
// A cast to a float rounds to the nearest number, ties to even. A number that
// is too large becomes an infinity, or NaN in f8e4m3, which has no infinities.
// NaN stays NaN and keeps its sign. A cast from an integer or a bool (0 or 1)
// to an integer or a bool keeps the value or is out of range. A float cannot be
// cast to an integer.
//
// Casts to f32 and f64 use the rounding mode of the processor, and a thread
// that flushes subnormal numbers to 0 flushes those of f32 and f64.
#ifndef CKPTDB_SCHEMA_CAST_H_
#define CKPTDB_SCHEMA_CAST_H_

#include <cstddef>

#include "absl/status/status.h"
#include "ckptdb/schema/dtype.h"

namespace ckptdb {

// Returns whether `from` can be cast to `to`; each dtype can be cast to itself.
bool CanCast(DType from, DType to);

// Casts `elements` elements. The arrays do not overlap and need not be aligned.
// Returns OutOfRange for the first element that `to` cannot represent, with its
// value and its index; the elements before it are written. Returns
// InvalidArgument unless CanCast(from, to).
absl::Status CastElements(DType from, const void* in, DType to, void* out,
                          size_t elements);

}  // namespace ckptdb

#endif  // CKPTDB_SCHEMA_CAST_H_
