// What a manager takes of the training's time besides its saves.
#ifndef CKPTDB_BENCH_STALL_STEPS_H_
#define CKPTDB_BENCH_STALL_STEPS_H_

#include "absl/status/status.h"
#include "ckptdb/bench/cases.h"
#include "ckptdb/bench/report.h"

namespace ckptdb::bench {

// With a store of many steps: opening, steps that are not saved, and what is
// to be thought of for a save.
absl::Status RunStallSteps(const BenchOptions& options, Report* report);

}  // namespace ckptdb::bench

#endif  // CKPTDB_BENCH_STALL_STEPS_H_
