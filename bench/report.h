// SPDX-License-Identifier: Apache-2.0
// Results: a table for people, one JSON object a case for programs.
#ifndef CKPTDB_BENCH_REPORT_H_
#define CKPTDB_BENCH_REPORT_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "bench/measure.h"

namespace ckptdb::bench {

// A figure beside the times; its name says its unit.
struct Figure {
  std::string name;
  double value = 0;
};

// The goal of a figure: an upper or a lower bound.
struct Goal {
  std::string name;
  double value = 0;
  double limit = 0;
  bool at_least = false;

  bool met() const { return at_least ? value >= limit : value <= limit; }
};

// One case: ours against the fastest of what it is compared with.
struct CaseResult {
  std::string name;
  uint64_t bytes = 0;
  int repetitions = 0;
  Summary seconds;
  Summary cpu_seconds;
  Summary raw_seconds;
  Summary raw_cpu_seconds;
  std::string raw_variant;
  // Medians of all that were compared.
  std::vector<Figure> raw_variants;
  std::vector<Figure> figures;
  std::vector<Goal> goals;

  // Returns the ratio of the medians, ours / raw.
  double ratio() const { return seconds.median / raw_seconds.median; }
  double cpu_seconds_per_gb() const;
  double raw_cpu_seconds_per_gb() const;
};

// A GB is 10^9 bytes.
double PerGb(double value, uint64_t bytes);

// `outcomes` is ours, then at least one other; the one with the least median
// becomes the raw one.
CaseResult Compare(std::string name, uint64_t bytes,
                   absl::Span<const Outcome> outcomes);

class Report {
 public:
  void Add(CaseResult result) { results_.push_back(std::move(result)); }

  // A table, then figures and goals line by line.
  std::string Text() const;
  // Returns the report with one object a line.
  std::string Json() const;

 private:
  std::vector<CaseResult> results_;
};

}  // namespace ckptdb::bench

#endif  // CKPTDB_BENCH_REPORT_H_
