// Shapes and boxes of tensors, row-major, and their arithmetic without
// overflow.
#ifndef CKPTDB_SCHEMA_SHAPE_H_
#define CKPTDB_SCHEMA_SHAPE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace ckptdb {

// Elements per dimension. A shape without dimensions is a scalar of one
// element; one with a dimension of 0 is an empty tensor.
using Shape = std::vector<int64_t>;

// A part of a tensor: shape[i] elements from offset[i] in dimension i.
struct Box {
  Shape offset;
  Shape shape;

  bool operator==(const Box&) const = default;
};

// "[3, 4]"
std::string ToString(absl::Span<const int64_t> shape);

// Returns the number of elements. Returns InvalidArgument for a negative
// dimension, for more than kMaxDimensions, or when elements x element_bytes
// overflow int64.
// `element_bytes` is at least 1.
absl::StatusOr<int64_t> ElementCount(absl::Span<const int64_t> shape,
                                     uint32_t element_bytes);

// Returns InvalidArgument unless `box` lies within `global`.
absl::Status CheckBoxWithin(const Box& box, absl::Span<const int64_t> global);

// Sets `both` to the intersection and returns whether it has elements. Both
// boxes are in the coordinates of one global shape.
bool Intersect(const Box& a, const Box& b, Box* both);

}  // namespace ckptdb

#endif  // CKPTDB_SCHEMA_SHAPE_H_
