// SPDX-License-Identifier: Apache-2.0
#include "bench/measure.h"

#include <malloc.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <numeric>

#include "schema/status.h"

namespace ckptdb::bench {
namespace {

double Seconds(const timeval& time) {
  return static_cast<double>(time.tv_sec) +
         static_cast<double>(time.tv_usec) * 1e-6;
}

double CpuSeconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return Seconds(usage.ru_utime) + Seconds(usage.ru_stime);
}

// A line such as "VmHWM:   123 kB" of a file below /proc, in bytes.
uint64_t LineBytes(const std::string& path, const std::string& name) {
  std::ifstream lines(path);
  std::string word;
  while (lines >> word) {
    uint64_t kibibytes = 0;
    if (word == name && lines >> kibibytes) return kibibytes << 10;
  }
  return 0;
}

uint64_t StatusLineBytes(const std::string& name) {
  return LineBytes("/proc/self/status", name);
}

absl::StatusOr<Sample> RunOnce(const std::string& title,
                               const Contestant& contestant) {
  if (contestant.prepare) CKPTDB_RETURN_IF_ERROR(contestant.prepare());
  CKPTDB_ASSIGN_OR_RETURN(const Sample sample, Measure(contestant.run));
  std::fprintf(stderr, "%s: %s: %.4f s, CPU %.4f s\n", title.c_str(),
               contestant.name.c_str(), sample.seconds, sample.cpu_seconds);
  if (contestant.finish) CKPTDB_RETURN_IF_ERROR(contestant.finish());
  return sample;
}

Summary SummarizeField(const Outcome& outcome, double Sample::*field) {
  std::vector<double> values;
  for (const Sample& sample : outcome.samples) {
    values.push_back(sample.*field);
  }
  return Summarize(std::move(values));
}

}  // namespace

absl::StatusOr<Sample> Measure(const std::function<absl::Status()>& run) {
  const double cpu_before = CpuSeconds();
  const auto before = std::chrono::steady_clock::now();
  CKPTDB_RETURN_IF_ERROR(run());
  const std::chrono::duration<double> passed =
      std::chrono::steady_clock::now() - before;
  return Sample{passed.count(), CpuSeconds() - cpu_before};
}

absl::StatusOr<std::vector<Outcome>> TakeTurns(
    const std::string& title, absl::Span<const Contestant> contestants,
    int repetitions) {
  std::vector<Outcome> outcomes;
  for (const Contestant& contestant : contestants) {
    outcomes.push_back({contestant.name, {}});
  }
  for (int repetition = 0; repetition < repetitions; ++repetition) {
    const std::string turn = title + " " + std::to_string(repetition + 1) +
                             "/" + std::to_string(repetitions);
    for (size_t i = 0; i < contestants.size(); ++i) {
      const size_t next =
          (static_cast<size_t>(repetition) + i) % contestants.size();
      CKPTDB_ASSIGN_OR_RETURN(const Sample sample,
                              RunOnce(turn, contestants[next]));
      outcomes[next].samples.push_back(sample);
    }
  }
  return outcomes;
}

Summary Summarize(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const size_t upper = values.size() / 2;
  const size_t lower = (values.size() - 1) / 2;
  return {std::midpoint(values[lower], values[upper]), values.front(),
          values.back()};
}

Summary SecondsOf(const Outcome& outcome) {
  return SummarizeField(outcome, &Sample::seconds);
}

Summary CpuSecondsOf(const Outcome& outcome) {
  return SummarizeField(outcome, &Sample::cpu_seconds);
}

void TouchFreeMemory(uint64_t bytes) {
  const uint64_t most = LineBytes("/proc/meminfo", "MemFree:") / 2;
  const size_t size = std::min(bytes, most);
  void* const memory = mmap(nullptr, size, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
  if (memory != MAP_FAILED) munmap(memory, size);
}

uint64_t ResidentBytes() { return StatusLineBytes("VmRSS:"); }

void PeakMemory::Start() {
  // Memory that the allocator kept from earlier work would hide what is
  // allocated now.
  malloc_trim(0);
  std::ofstream("/proc/self/clear_refs") << 5;
  resident_bytes_ = ResidentBytes();
}

uint64_t PeakMemory::BytesAboveStart() const {
  const uint64_t peak_bytes = StatusLineBytes("VmHWM:");
  return peak_bytes > resident_bytes_ ? peak_bytes - resident_bytes_ : 0;
}

}  // namespace ckptdb::bench
