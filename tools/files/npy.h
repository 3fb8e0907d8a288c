// SPDX-License-Identifier: Apache-2.0
// NumPy's .npy format, versions 1 to 3. NumPy has no bf16 and f8: an array of
// them is written as a structured one with a field of unsigned integers that
// is named after the dtype, "bfloat16", "float8_e4m3fn" or "float8_e5m2".
#ifndef CKPTDB_TOOLS_FILES_NPY_H_
#define CKPTDB_TOOLS_FILES_NPY_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "schema/types.h"

namespace ckptdb::tool {

// Returns what precedes the elements of an array: a multiple of 64 bytes.
std::string NpyHeader(DType dtype, const Shape& shape);

struct NpyArray {
  DType dtype = DType::kF32;
  Shape shape;
  bool fortran_order = false;  // the first dimension varies fastest
  uint64_t data_at = 0;
  uint64_t bytes = 0;
};

// Returns InvalidArgument for a header that is not one or has a dtype that the
// store lacks, and DataLoss unless the elements are all that follows.
absl::StatusOr<NpyArray> ParseNpy(absl::string_view file);

// Copies the elements of an array in Fortran order to row-major order. `to` has
// array.bytes bytes.
void ToRowMajor(const NpyArray& array, const char* from, char* to);

}  // namespace ckptdb::tool

#endif  // CKPTDB_TOOLS_FILES_NPY_H_
