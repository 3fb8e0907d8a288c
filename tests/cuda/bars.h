// The bars of a bench: what it measures is at least or at most so much.
#ifndef CKPTDB_TESTS_CUDA_BARS_H_
#define CKPTDB_TESTS_CUDA_BARS_H_

#include <iostream>
#include <string>
#include <vector>

#include "absl/strings/str_format.h"
#include "absl/strings/string_view.h"

namespace ckptdb {

class Bars {
 public:
  void AtLeast(absl::string_view what, double measured, double bar) {
    Note(what, measured, bar, measured >= bar, "at least");
  }
  void AtMost(absl::string_view what, double measured, double bar) {
    Note(what, measured, bar, measured <= bar, "at most");
  }
  // Names the bars that are missed, and returns the exit code of the bench.
  int ExitCode() const {
    for (const std::string& each : missed_) {
      std::cout << "bar missed: " << each << "\n";
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
