// SPDX-License-Identifier: Apache-2.0
// A process that this one starts, reads lines from and kills.
#ifndef CKPTDB_BENCH_SOAK_CHILD_H_
#define CKPTDB_BENCH_SOAK_CHILD_H_

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace ckptdb::soak {

class Child {
 public:
  // The first argument is the program. Its standard output is read here, with
  // `with_errors` also its standard error.
  static absl::StatusOr<std::unique_ptr<Child>> Start(
      std::vector<std::string> arguments, bool with_errors = false);
  // Kills it when it is still there.
  ~Child();
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  pid_t pid() const { return pid_; }

  // The next line without its end. Returns NotFound if there is no more of it
  // and the output is closed, and DeadlineExceeded if none came in time. A line
  // that was cut off is none.
  absl::StatusOr<std::string> ReadLine(int64_t timeout_ms);

  // Sends SIGKILL; the lines that it wrote can still be read.
  void Kill();
  // Returns how it ended: "exit 3", "signal 9".
  std::string Wait();

 private:
  Child(pid_t pid, int output) : pid_(pid), output_(output) {}

  const pid_t pid_;
  const int output_;
  std::string read_;  // and not handed out yet
  std::string ending_;
};

}  // namespace ckptdb::soak

#endif  // CKPTDB_BENCH_SOAK_CHILD_H_
