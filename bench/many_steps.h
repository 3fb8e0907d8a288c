// SPDX-License-Identifier: Apache-2.0
// A store of many small steps, for what must not take longer the more there
// are.
#ifndef CKPTDB_BENCH_MANY_STEPS_H_
#define CKPTDB_BENCH_MANY_STEPS_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"

namespace ckptdb::bench {

inline constexpr uint64_t kManyStepsTensorElements = 16;

// Steps 0 to `steps` - 1 of a u64 tensor "w" and a table of a few rows each,
// no two with the same bytes, each with a metric "auc".
absl::Status BuildSteps(const std::string& path, uint64_t steps, uint64_t seed);

}  // namespace ckptdb::bench

#endif  // CKPTDB_BENCH_MANY_STEPS_H_
