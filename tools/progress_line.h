// SPDX-License-Identifier: Apache-2.0
// Shows the progress of a long call in a line on a terminal. The line appears
// after one second, and is cleared when the object is destroyed.
//
//   ProgressLine progress(context.terminal, "verify: step 1000");
//   ReadOptions options;
//   options.progress = [&](uint64_t done_bytes, uint64_t all_bytes) {
//     progress.Update(done_bytes, all_bytes);
//   };
//   step->Verify(options);
#ifndef CKPTDB_TOOLS_PROGRESS_LINE_H_
#define CKPTDB_TOOLS_PROGRESS_LINE_H_

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <ostream>
#include <string>
#include <thread>

namespace ckptdb::tool {

// Returns "verify: step 1000: 1.0 GiB of 4.0 GiB, 25 %, 3 s", or no bytes while
// `all_bytes` is 0.
std::string ProgressText(const std::string& label, uint64_t done_bytes,
                         uint64_t all_bytes, int64_t elapsed_seconds);

class ProgressLine {
 public:
  // If `terminal` is null, shows nothing.
  ProgressLine(std::ostream* terminal, std::string label,
               std::chrono::milliseconds delay = std::chrono::seconds(1));
  ~ProgressLine();
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

  // Updates the line. Any thread may call it.
  void Update(uint64_t done_bytes, uint64_t all_bytes);

 private:
  void Draw();

  std::ostream* const terminal_;
  const std::string label_;
  const std::chrono::steady_clock::time_point start_;
  const std::chrono::milliseconds delay_;
  // Tools include only public headers, which excludes the annotated mutex of
  // db/base/mutex.h: see tests/layering_test.cc. It guards `ended_`,
  // `done_bytes_` and `all_bytes_`.
  std::mutex mutex_;
  std::condition_variable ended_cond_;
  bool ended_ = false;
  uint64_t done_bytes_ = 0;
  uint64_t all_bytes_ = 0;
  std::thread drawer_;
};

}  // namespace ckptdb::tool

#endif  // CKPTDB_TOOLS_PROGRESS_LINE_H_
