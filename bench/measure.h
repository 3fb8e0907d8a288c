// SPDX-License-Identifier: Apache-2.0
// Wall time, CPU time and memory of competing pieces of work, measured in
// turns, so that a slow minute of the machine meets all of them.
#ifndef CKPTDB_BENCH_MEASURE_H_
#define CKPTDB_BENCH_MEASURE_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace ckptdb::bench {

// One of the competing pieces of work. Only `run` is measured; the others may
// be null.
struct Contestant {
  std::string name;
  std::function<absl::Status()> prepare;
  std::function<absl::Status()> run;
  std::function<absl::Status()> finish;
};

struct Sample {
  double seconds = 0;
  // User and system time of all threads of this process. Work that the kernel
  // does later on its own threads, such as writing the page cache back, is
  // not in it.
  double cpu_seconds = 0;
};

struct Outcome {
  std::string name;
  std::vector<Sample> samples;
};

struct Summary {
  double median = 0;
  double min = 0;
  double max = 0;
};

// One measured call, without prepare and finish.
absl::StatusOr<Sample> Measure(const std::function<absl::Status()>& run);

// Runs every contestant once in each repetition, a different one first each
// time. Says on stderr what is measured. The first error ends it.
absl::StatusOr<std::vector<Outcome>> TakeTurns(
    const std::string& title, absl::Span<const Contestant> contestants,
    int repetitions);

// Summarizes a set that is not empty.
Summary Summarize(std::vector<double> values);
Summary SecondsOf(const Outcome& outcome);
Summary CpuSecondsOf(const Outcome& outcome);

// Writes to this many bytes of free memory, or to half of it if less is free. A
// virtual machine may return free memory to its host, and then the first write
// to it takes several times longer, whoever writes first.
void TouchFreeMemory(uint64_t bytes);
// The data, its copies, and the page cache of the files.
constexpr uint64_t kTouchedCopies = 5;

// Memory that this process has resident now.
uint64_t ResidentBytes();

// Memory that this process has resident beyond what it had at the start.
class PeakMemory {
 public:
  void Start();
  // The most since Start. Where the kernel cannot forget the peak before Start
  // this is the peak of the process, an upper bound.
  uint64_t BytesAboveStart() const;

 private:
  uint64_t resident_bytes_ = 0;
};

}  // namespace ckptdb::bench

#endif  // CKPTDB_BENCH_MEASURE_H_
