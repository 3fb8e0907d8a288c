// SPDX-License-Identifier: Apache-2.0
#include "tools/progress_line.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "tools/format.h"

namespace ckptdb::tool {
namespace {

// Moves to the start of the line and clears it.
constexpr char kClearLine[] = "\r\x1b[K";
constexpr std::chrono::milliseconds kRedraw(200);

}  // namespace

std::string ProgressText(const std::string& label, uint64_t done_bytes,
                         uint64_t all_bytes, int64_t elapsed_seconds) {
  std::string text = absl::StrCat(label, ": ");
  if (all_bytes > 0) {
    const double percent = 100.0 * static_cast<double>(done_bytes) /
                           static_cast<double>(all_bytes);
    absl::StrAppend(&text, FormatBytes(done_bytes), " of ",
                    FormatBytes(all_bytes), ", ", static_cast<int>(percent),
                    " %, ");
  }
  return absl::StrCat(text, elapsed_seconds, " s");
}

ProgressLine::ProgressLine(std::ostream* terminal, std::string label,
                           std::chrono::milliseconds delay)
    : terminal_(terminal),
      label_(std::move(label)),
      start_(std::chrono::steady_clock::now()),
      delay_(delay) {
  // A separate thread keeps counting seconds between two updates.
  if (terminal_ != nullptr) drawer_ = std::thread([this] { Draw(); });
}

ProgressLine::~ProgressLine() {
  if (!drawer_.joinable()) return;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    ended_ = true;
  }
  ended_cond_.notify_one();
  drawer_.join();
}

void ProgressLine::Update(uint64_t done_bytes, uint64_t all_bytes) {
  const std::lock_guard<std::mutex> lock(mutex_);
  done_bytes_ = done_bytes;
  all_bytes_ = all_bytes;
}

void ProgressLine::Draw() {
  std::unique_lock<std::mutex> lock(mutex_);
  const auto has_ended = [this] { return ended_; };
  // A short command shows nothing.
  if (ended_cond_.wait_for(lock, delay_, has_ended)) return;
  do {
    const auto elapsed = std::chrono::duration_cast<std::chrono::seconds>(
        std::chrono::steady_clock::now() - start_);
    *terminal_ << kClearLine
               << ProgressText(label_, done_bytes_, all_bytes_, elapsed.count())
               << std::flush;
  } while (!ended_cond_.wait_for(lock, kRedraw, has_ended));
  *terminal_ << kClearLine << std::flush;
}

}  // namespace ckptdb::tool
