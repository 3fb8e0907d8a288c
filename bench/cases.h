// SPDX-License-Identifier: Apache-2.0
// The cases of ckptdb_bench. Each makes its data, measures against
// the raw limit of the machine, adds its results to the report, and leaves
// nothing on the disk.
#ifndef CKPTDB_BENCH_CASES_H_
#define CKPTDB_BENCH_CASES_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "bench/report.h"

namespace ckptdb::bench {

struct BenchOptions {
  // Everything is below a new folder in this one, which goes at the end.
  std::string dir = ".";
  int repetitions = 5;
  // Repetitions of the alternatives, which are slow. 0 leaves them out.
  int alternative_repetitions = 1;
  // Workers of a save or a restore of ours. 0: the library's defaults.
  int threads = 0;
  // The rows of the table of `full`, `restore`, `stall` and `marks`.
  uint64_t rows = 8'000'000;
  // The bytes of the tensors of `dense` and `restore`.
  uint64_t dense_bytes = uint64_t{2} << 30;
  // The bytes of the step that `retention` deletes, and the number of steps
  // that its store and that of `stall` have when they are opened.
  uint64_t retention_bytes = uint64_t{1} << 30;
  uint64_t steps = 10'000;
  // The largest world of `scale`.
  uint32_t max_ranks = 1024;
  uint64_t seed = 1;
};

// Saves a table's rows, and compares with alternatives to a store.
absl::Status RunFull(const BenchOptions& options, Report* report);
// Saves tensors.
absl::Status RunDense(const BenchOptions& options, Report* report);
// Reads both back with a cold page cache.
absl::Status RunRestore(const BenchOptions& options, Report* report);
// Measures the deletion of a step until its space is back, and the opening of a
// store of many steps.
absl::Status RunRetention(const BenchOptions& options, Report* report);
// A small save, in units of one fsync.
absl::Status RunTiny(const BenchOptions& options, Report* report);
// A save of 1 % of the rows, against one of all.
absl::Status RunDelta(const BenchOptions& options, Report* report);
// Restores of a base with ten and with a hundred deltas, against the base.
absl::Status RunChain(const BenchOptions& options, Report* report);
// The commit of what 1 to 1,024 ranks have staged, in 4 files each.
absl::Status RunScalePublish(const BenchOptions& options, Report* report);
// Reads one delta of 1 % into a copy of the step before it.
absl::Status RunFollow(const BenchOptions& options, Report* report);
// Folds ten deltas into a base.
absl::Status RunFold(const BenchOptions& options, Report* report);
// Measures how long a manager blocks the training: for saves beside it, for
// steps without a save, and with a store of many steps.
absl::Status RunStall(const BenchOptions& options, Report* report);

// Encodes and decodes pages with lossy codecs, against memcpy.
absl::Status RunLossy(const BenchOptions& options, Report* report);

// Marks rows of a table of `rows` as changed. Needs no folder.
absl::Status RunMarks(const BenchOptions& options, Report* report);

}  // namespace ckptdb::bench

#endif  // CKPTDB_BENCH_CASES_H_
