// SPDX-License-Identifier: Apache-2.0
// A part of a tensor on the command line, as NumPy writes it: "0:10,5,-3:".
#ifndef CKPTDB_TOOLS_SLICE_ARGUMENT_H_
#define CKPTDB_TOOLS_SLICE_ARGUMENT_H_

#include <string>

#include "absl/status/statusor.h"
#include "schema/types.h"
#include "tools/tensor_scan.h"

namespace ckptdb::tool {

// Parses an index or a range BEGIN:END for each dimension, separated by commas;
// both ends are optional, and negative numbers count from the end. Missing
// dimensions are whole; an index keeps its dimension, of 1 element. Returns
// InvalidArgument, with the dimension and its extent, for indexes that the
// tensor lacks.
absl::StatusOr<TensorBox> ParseSlice(const std::string& text,
                                     const Shape& shape);

}  // namespace ckptdb::tool

#endif  // CKPTDB_TOOLS_SLICE_ARGUMENT_H_
