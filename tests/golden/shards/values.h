// SPDX-License-Identifier: Apache-2.0
// The contents of the store of tests/golden/shards.
#ifndef CKPTDB_TESTS_GOLDEN_SHARDS_VALUES_H_
#define CKPTDB_TESTS_GOLDEN_SHARDS_VALUES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "schema/bytes/shape.h"

namespace ckptdb::testing {

// Makes the store in a new folder.
absl::Status MakeShardsStore(const std::string& path);

inline const Shape kShardsSmall = {6, 4};
inline const Shape kShardsLarge = {999, 600};

// The boxes that a rank of two has of a tensor of this shape in step 1 or 2; in
// step 3 rank 0 has only its second box, and rank 1 all others.
inline std::vector<Box> ShardsBoxes(const Shape& shape, uint32_t rank,
                                    int64_t step) {
  const int64_t rows = shape[0] / 3;
  const int64_t columns = shape[1] / 2;
  const Box first = {{0, 0}, {rows, columns}};
  const Box second = {{rows, 0}, {2 * rows, columns}};
  const std::vector<Box> right = {{{0, columns}, {rows, columns}},
                                  {{rows, columns}, {rows, columns}},
                                  {{2 * rows, columns}, {rows, columns}}};
  if (step < 3) return rank == 0 ? std::vector<Box>{first, second} : right;
  if (rank == 0) return {second};
  std::vector<Box> rest = right;
  rest.push_back(first);
  return rest;
}

// An element in a step: step 2 changes the first row, and step 3 nothing.
inline int32_t ShardsValue(int64_t row, int64_t column, int64_t step) {
  const bool is_new = step >= 2 && row == 0;
  return static_cast<int32_t>(1000 * row + column / 8 + (is_new ? 500 : 0));
}

}  // namespace ckptdb::testing

#endif  // CKPTDB_TESTS_GOLDEN_SHARDS_VALUES_H_
