// Elements of one dtype as those of another.
//
//   CanCast(DType::kBf16, DType::kF32)   == true
//   CanCast(DType::kF32, DType::kI32)    == false
//   CKPTDB_RETURN_IF_ERROR(CastElements(DType::kF32, in, DType::kBf16, out,
//                                       elements));
//
// A float, an integer or a bool becomes a float: the nearest, and of two the
// one whose last bit is 0. A number above all of a float dtype becomes an
// infinity; of f8e4m3, which has none, NaN, and so does an infinity. NaN stays
// NaN with its sign. An integer or a bool, which is 0 or 1, becomes the same
// integer or bool, or is out of range. Floats become no integers.
//
// To f32 and f64 the processor rounds, as its mode is. A thread that takes
// subnormal numbers for 0 does so with those of f32 and f64.
#ifndef CKPTDB_SCHEMA_CAST_H_
#define CKPTDB_SCHEMA_CAST_H_

#include <cstddef>

#include "absl/status/status.h"
#include "ckptdb/schema/dtype.h"

namespace ckptdb {

// Whether there is a cast; a dtype to itself has one.
bool CanCast(DType from, DType to);

// The arrays do not overlap, and need not be aligned. OutOfRange naming the
// first element that `to` does not have, its number and its place; those before
// it are written. InvalidArgument when there is no such cast.
absl::Status CastElements(DType from, const void* in, DType to, void* out,
                          size_t elements);

}  // namespace ckptdb

#endif  // CKPTDB_SCHEMA_CAST_H_
