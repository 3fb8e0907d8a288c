// SPDX-License-Identifier: Apache-2.0
// Loads tensors whose dtype in the step differs from the model's; internal to
// manager/.
#ifndef CKPTDB_MANAGER_LOAD_LOAD_CAST_H_
#define CKPTDB_MANAGER_LOAD_LOAD_CAST_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "db/reader.h"
#include "manager/model_state.h"
#include "schema/bytes/shape.h"
#include "schema/types.h"

namespace ckptdb::internal {

// Cuts a tensor into boxes that are contiguous in memory and have a limited
// number of elements.
class TensorPieces {
 public:
  // `shape` has no dimension of 0; `most_elements` is at least 1.
  TensorPieces(const Shape& shape, uint64_t most_elements);

  uint64_t count() const { return outer_ * cuts_; }
  // The maximum number of elements of a piece.
  uint64_t elements() const { return cut_ * inner_; }
  // Returns a piece below count(), and sets *first to the index of its first
  // element.
  Box At(uint64_t piece, uint64_t* first) const;

 private:
  const Shape shape_;
  // The dimension that is cut. A piece has one index of each dimension before
  // it, and all of those after it.
  size_t dimension_ = 0;
  uint64_t outer_ = 1;  // elements in the dimensions before
  uint64_t inner_ = 1;  // elements in the dimensions after
  uint64_t cut_ = 1;    // indices per piece; the last may have fewer
  uint64_t cuts_ = 1;   // pieces along the dimension
};

// Reads the model's part of a tensor whose dtype in the step is `from`, in
// pieces of 8 MiB there, one for each thread. Returns OutOfRange naming the
// tensor, the element by its indices in the global tensor, and its value.
absl::Status LoadCastTensor(const StepReader& step, const ReadOptions& read,
                            const std::string& name, DType from,
                            const TensorState& state);

}  // namespace ckptdb::internal

#endif  // CKPTDB_MANAGER_LOAD_LOAD_CAST_H_
