// SPDX-License-Identifier: Apache-2.0
#include "schema/bytes/shape.h"

#include <algorithm>
#include <cstddef>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "schema/types.h"

namespace ckptdb {

std::string ToString(absl::Span<const int64_t> shape) {
  return absl::StrCat("[", absl::StrJoin(shape, ", "), "]");
}

absl::StatusOr<int64_t> ElementCount(absl::Span<const int64_t> shape,
                                     uint32_t element_bytes) {
  if (shape.size() > kMaxDimensions) {
    return absl::InvalidArgumentError(absl::StrCat("shape has ", shape.size(),
                                                   " dimensions; the limit is ",
                                                   kMaxDimensions));
  }
  int64_t bytes = element_bytes;
  bool empty = false;
  for (const int64_t dimension : shape) {
    if (dimension < 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("shape ", ToString(shape), " has a negative dimension"));
    }
    empty |= dimension == 0;
  }
  // The product can overflow only if no dimension is 0; an empty tensor may
  // have any other dimensions.
  if (empty) return 0;
  for (const int64_t dimension : shape) {
    if (__builtin_mul_overflow(bytes, dimension, &bytes)) {
      return absl::InvalidArgumentError(
          absl::StrCat("shape ", ToString(shape), " of ", element_bytes,
                       "-byte elements exceeds 2^63 - 1 bytes"));
    }
  }
  return bytes / element_bytes;
}

absl::Status CheckBoxWithin(const Box& box, absl::Span<const int64_t> global) {
  bool within =
      box.offset.size() == global.size() && box.shape.size() == global.size();
  for (size_t i = 0; within && i < global.size(); ++i) {
    // The comparisons are ordered so that no sum or difference overflows for
    // any numbers.
    within = box.offset[i] >= 0 && box.shape[i] >= 0 &&
             box.shape[i] <= global[i] &&
             box.offset[i] <= global[i] - box.shape[i];
  }
  if (within) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("shape ", ToString(box.shape), " at offset ",
                   ToString(box.offset), " is not within ", ToString(global)));
}

bool Intersect(const Box& a, const Box& b, Box* both) {
  both->offset.clear();
  both->shape.clear();
  for (size_t i = 0; i < a.shape.size(); ++i) {
    const int64_t begin = std::max(a.offset[i], b.offset[i]);
    const int64_t end =
        std::min(a.offset[i] + a.shape[i], b.offset[i] + b.shape[i]);
    // Boxes that only touch share no element.
    if (begin >= end) return false;
    both->offset.push_back(begin);
    both->shape.push_back(end - begin);
  }
  return true;
}

}  // namespace ckptdb
