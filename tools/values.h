// SPDX-License-Identifier: Apache-2.0
// Converts a slot's elements to numbers by their dtype.
//
//   ElementText(DType::kBf16, bytes)  == "0.100097656"
//   ElementsJson(DType::kF32, bytes)  == [0.25, 1.25, "nan"]
#ifndef CKPTDB_TOOLS_VALUES_H_
#define CKPTDB_TOOLS_VALUES_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "schema/types.h"
#include "tools/json.h"

namespace ckptdb::tool {

// Returns the element at the start of `bytes`: true or false for a bool, and
// "nan", "inf" or "-inf" for a number that is not finite.
Json ElementJson(DType dtype, absl::string_view bytes);
// Returns the element with the fewest digits that distinguish it from all other
// numbers of its dtype; floats of fewer than 32 bits are formatted as f32.
std::string ElementText(DType dtype, absl::string_view bytes);

// Returns all elements in `bytes` as an array.
Json ElementsJson(DType dtype, absl::string_view bytes);
// Returns the first `limit` elements, separated by spaces, then "... 8 more".
std::string ElementsText(DType dtype, absl::string_view bytes, size_t limit);

// Returns a row: "name", "dtype", "elements" and "values" of each slot.
Json ValuesJson(const std::vector<Slot>& slots,
                const std::vector<std::string>& values);

}  // namespace ckptdb::tool

#endif  // CKPTDB_TOOLS_VALUES_H_
