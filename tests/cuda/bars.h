// SPDX-License-Identifier: Apache-2.0
// Thresholds of a benchmark: the least or the most that it may measure.
#ifndef CKPTDB_TESTS_CUDA_BARS_H_
#define CKPTDB_TESTS_CUDA_BARS_H_

#include <iostream>
#include <string>
#include <vector>

#include "absl/strings/str_format.h"
#include "absl/strings/string_view.h"

namespace ckptdb {

class Thresholds {
 public:
  void AtLeast(absl::string_view what, double measured, double bar) {
    Note(what, measured, bar, measured >= bar, "at least");
  }
  void AtMost(absl::string_view what, double measured, double bar) {
    Note(what, measured, bar, measured <= bar, "at most");
  }
  // Prints the missed thresholds, and returns the benchmark's exit code.
  int ExitCode() const {
    for (const std::string& each : missed_) {
      std::cout << "threshold missed: " << each << "\n";
    }
    return missed_.empty() ? 0 : 1;
  }

 private:
  void Note(absl::string_view what, double measured, double bar, bool met,
            absl::string_view kind) {
    if (met) return;
    missed_.push_back(absl::StrFormat("%s is %.3f, expected %s %.3f", what,
                                      measured, kind, bar));
  }

  std::vector<std::string> missed_;
};

}  // namespace ckptdb

#endif  // CKPTDB_TESTS_CUDA_BARS_H_
