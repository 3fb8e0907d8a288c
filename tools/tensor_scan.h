// SPDX-License-Identifier: Apache-2.0
// Reads tensors of any size piece by piece, in a bounded amount of memory.
//
//   CKPTDB_ASSIGN_OR_RETURN(const Item spec, step->FindTensor("w"));
//   ScanTensors(*step, {{spec, WholeOf(spec)}}, {},
//               [&](size_t, const char* bytes, uint64_t size) { ... });
#ifndef CKPTDB_TOOLS_TENSOR_SCAN_H_
#define CKPTDB_TOOLS_TENSOR_SCAN_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/types/span.h"
#include "db/reader.h"
#include "schema/types.h"

namespace ckptdb::tool {

// A part of a tensor: shape[i] elements from offset[i] in dimension i.
struct TensorBox {
  Shape offset;
  Shape shape;
};

// Returns the box of all elements of a tensor.
TensorBox WholeOf(const Item& tensor);

// Returns the bytes of the elements of a valid box.
uint64_t BytesOf(const TensorBox& box, DType dtype);

// Divides a box into boxes of at most `max_bytes` or one element, whose
// elements follow each other in row-major order.
std::vector<TensorBox> DivideBox(const TensorBox& box, DType dtype,
                                 uint64_t max_bytes);

struct TensorPart {
  Item spec;  // from StepReader::FindTensor
  TensorBox box;
};

// Receives the bytes of parts[part], which follow those of the call before.
using TakePiece = absl::FunctionRef<absl::Status(size_t part, const char* bytes,
                                                 uint64_t size)>;

// Passes all bytes of each part in turn, row-major, in pieces of at most 32
// MiB. Reads a piece while `take` is called with the piece before. An empty
// part is passed once, with 0 bytes. Ends with the first error.
absl::Status ScanTensors(const StepReader& step,
                         absl::Span<const TensorPart> parts,
                         const ReadOptions& options, TakePiece take);

}  // namespace ckptdb::tool

#endif  // CKPTDB_TOOLS_TENSOR_SCAN_H_
