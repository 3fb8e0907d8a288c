// SPDX-License-Identifier: Apache-2.0
#include "tools/progress_line.h"

#include <chrono>
#include <future>
#include <ostream>
#include <sstream>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ckptdb::tool {
namespace {

using ::testing::EndsWith;
using ::testing::StartsWith;

constexpr char kClearLine[] = "\r\x1b[K";

// Notifies when it is flushed for the first time.
class DrawnBuffer : public std::stringbuf {
 public:
  void AwaitDrawn() { drawn_.get_future().wait(); }

 private:
  int sync() override {
    if (!is_drawn_) drawn_.set_value();
    is_drawn_ = true;
    return 0;
  }
  bool is_drawn_ = false;
  std::promise<void> drawn_;
};

TEST(ProgressText, ShowsBytesAndSeconds) {
  EXPECT_EQ(
      ProgressText("verify: step 7", uint64_t{1} << 30, uint64_t{4} << 30, 3),
      "verify: step 7: 1.0 GiB of 4.0 GiB, 25 %, 3 s");
}

TEST(ProgressText, ShowsSecondsIfBytesAreUnknown) {
  EXPECT_EQ(ProgressText("gc: sweeping", 0, 0, 12), "gc: sweeping: 12 s");
}

TEST(ProgressLine, AppearsAndDisappears) {
  DrawnBuffer buffer;
  std::ostream terminal(&buffer);
  {
    ProgressLine progress(&terminal, "gc: sweeping",
                          std::chrono::milliseconds(0));
    buffer.AwaitDrawn();
  }
  EXPECT_THAT(buffer.str(),
              StartsWith(std::string(kClearLine) + "gc: sweeping: "));
  EXPECT_THAT(buffer.str(), EndsWith(std::string(" s") + kClearLine));
}

TEST(ProgressLine, ShowsNothingForAShortCall) {
  std::ostringstream terminal;
  {
    ProgressLine progress(&terminal, "gc: sweeping", std::chrono::hours(1));
    progress.Update(1, 2);
  }
  EXPECT_EQ(terminal.str(), "");
}

}  // namespace
}  // namespace ckptdb::tool
