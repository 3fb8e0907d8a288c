// SPDX-License-Identifier: Apache-2.0
// Boxes of tensors, and arithmetic on them without overflow.
#ifndef CKPTDB_SCHEMA_BYTES_SHAPE_H_
#define CKPTDB_SCHEMA_BYTES_SHAPE_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "schema/types.h"

namespace ckptdb {

// A part of a tensor: shape[i] elements from offset[i] in dimension i.
struct Box {
  Shape offset;
  Shape shape;

  bool operator==(const Box&) const = default;
};

// Returns InvalidArgument unless `box` lies within `global`.
absl::Status CheckBoxWithin(const Box& box, absl::Span<const int64_t> global);

// Sets `both` to the intersection and returns whether it has elements. Both
// boxes are in the coordinates of one global shape.
bool Intersect(const Box& a, const Box& b, Box* both);

}  // namespace ckptdb

#endif  // CKPTDB_SCHEMA_BYTES_SHAPE_H_
