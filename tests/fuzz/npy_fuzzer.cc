// SPDX-License-Identifier: Apache-2.0
// Arrays of NumPy: one that parses has all its elements, and its header is
// written and parsed again.
#include <string>

#include "tests/fuzz/fuzz_input.h"
#include "tools/files/npy.h"

namespace ckptdb::tool {
namespace {

using testing::Require;

void CheckNpy(absl::string_view file) {
  const auto array = ParseNpy(file);
  if (!array.ok()) return;
  Require(array->data_at + array->bytes == file.size());
  std::string rows(array->bytes, '\0');
  ToRowMajor(*array, file.data() + array->data_at, rows.data());
  const auto again = ParseNpy(NpyHeader(array->dtype, array->shape) + rows);
  Require(again.ok() && again->dtype == array->dtype);
  Require(again->shape == array->shape && !again->fortran_order);
}

}  // namespace
}  // namespace ckptdb::tool

CKPTDB_FUZZ(ckptdb::tool::CheckNpy)
