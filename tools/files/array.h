// SPDX-License-Identifier: Apache-2.0
// Arrays of files of other systems.
#ifndef CKPTDB_TOOLS_FILES_ARRAY_H_
#define CKPTDB_TOOLS_FILES_ARRAY_H_

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"
#include "schema/types.h"

namespace ckptdb::tool {

struct ArraySpec {
  std::string name;
  DType dtype = DType::kF32;
  Shape shape;
  uint64_t bytes = 0;
};

// Elements in row-major order, in memory that its file owns.
struct FileArray {
  ArraySpec spec;
  const char* data = nullptr;  // not necessarily aligned
  bool tensor_only = false;    // never a part of a table
};

// Returns InvalidArgument naming the array for a shape that has no size in
// bytes: see ElementCount.
absl::StatusOr<ArraySpec> MakeArraySpec(std::string name, DType dtype,
                                        Shape shape);

}  // namespace ckptdb::tool

#endif  // CKPTDB_TOOLS_FILES_ARRAY_H_
