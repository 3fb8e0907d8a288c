// SPDX-License-Identifier: Apache-2.0
#include "tools/slice_argument.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "schema/status.h"

namespace ckptdb::tool {
namespace {

// Returns the index from the beginning, or `missing` for an empty text.
std::optional<int64_t> ParseSliceIndex(absl::string_view text, int64_t missing,
                                       int64_t extent) {
  if (text.empty()) return missing;
  int64_t index = 0;
  if (!absl::SimpleAtoi(text, &index)) return std::nullopt;
  return index < 0 ? index + extent : index;
}

// Returns the begin and the end.
absl::StatusOr<std::pair<int64_t, int64_t>> ParseSliceRange(
    absl::string_view text, size_t dimension, int64_t extent) {
  const std::vector<absl::string_view> ends = absl::StrSplit(text, ':');
  const bool range = ends.size() == 2;
  const std::optional<int64_t> begin =
      ParseSliceIndex(ends[0], range ? 0 : -1, extent);
  std::optional<int64_t> end;
  if (range) end = ParseSliceIndex(ends[1], extent, extent);
  // Larger indexes are refused below.
  if (!range && begin.has_value()) end = std::min(*begin, extent) + 1;
  if (ends.size() > 2 || !begin || !end || *begin < 0 || *begin > *end ||
      *end > extent) {
    return absl::InvalidArgumentError(absl::StrCat(
        "invalid slice \"", text, "\" of dimension ", dimension, ", which has ",
        extent, " elements; expected an index, or BEGIN:END within them"));
  }
  return std::make_pair(*begin, *end);
}

}  // namespace

absl::StatusOr<TensorBox> ParseSlice(const std::string& text,
                                     const Shape& shape) {
  TensorBox box = {Shape(shape.size(), 0), shape};
  if (text.empty()) return box;
  const std::vector<std::string> parts = absl::StrSplit(text, ',');
  if (parts.size() > shape.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("the slice \"", text, "\" has ", parts.size(),
                     " dimensions, and the tensor ", ToString(shape), " has ",
                     shape.size()));
  }
  for (size_t i = 0; i < parts.size(); ++i) {
    CKPTDB_ASSIGN_OR_RETURN(
        const auto range,
        ParseSliceRange(absl::StripAsciiWhitespace(parts[i]), i, shape[i]));
    box.offset[i] = range.first;
    box.shape[i] = range.second - range.first;
  }
  return box;
}

}  // namespace ckptdb::tool
