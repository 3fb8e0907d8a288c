// SPDX-License-Identifier: Apache-2.0
// The contents of the store of tests/golden/id_ranges.
#ifndef CKPTDB_TESTS_GOLDEN_ID_RANGES_VALUES_H_
#define CKPTDB_TESTS_GOLDEN_ID_RANGES_VALUES_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "db/state.h"

namespace ckptdb::testing {

// Makes the store in a new folder.
absl::Status MakeIdRangesStore(const std::string& path);

inline constexpr int64_t kRangesRows = 100;

// Steps 1 and 2 divide the rows evenly; step 3 by bounds, among other ranks.
inline TableSharding RangesSharding(int64_t step) {
  return step < 3 ? TableSharding::ByRange(kRangesRows)
                  : TableSharding::ByRange({0, 10, 10, kRangesRows});
}

// Step 2 changes every third row, step 3 every fifth.
inline bool RangesChanged(int64_t id, int64_t step) {
  return id % (step == 2 ? 3 : 5) == 0;
}

// The value that a step writes.
inline float RangesValue(int64_t id, int64_t step) {
  return static_cast<float>(1000 * step + id);
}

// The value in a step.
inline float RangesValueIn(int64_t id, int64_t step) {
  while (step > 1 && !RangesChanged(id, step)) --step;
  return RangesValue(id, step);
}

}  // namespace ckptdb::testing

#endif  // CKPTDB_TESTS_GOLDEN_ID_RANGES_VALUES_H_
