// SPDX-License-Identifier: Apache-2.0
// Benchmarks of the time that a manager takes from the training besides its
// saves.
#ifndef CKPTDB_BENCH_STALL_STEPS_H_
#define CKPTDB_BENCH_STALL_STEPS_H_

#include "absl/status/status.h"
#include "bench/cases.h"
#include "bench/report.h"

namespace ckptdb::bench {

// Measures a store of many steps: opening it, steps that are not saved, and the
// planning of a save.
absl::Status RunStallSteps(const BenchOptions& options, Report* report);

}  // namespace ckptdb::bench

#endif  // CKPTDB_BENCH_STALL_STEPS_H_
