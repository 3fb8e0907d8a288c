// SPDX-License-Identifier: Apache-2.0
#include "bench/soak/writer.h"

#include <poll.h>
#include <unistd.h>

#include <mutex>

#include "absl/strings/match.h"
#include "bench/soak/session.h"

namespace ckptdb::soak {
namespace {

// Each line is one write: a process that is killed has written all of it or
// nothing.
void TellDriver(const Event& event) {
  static std::mutex mutex;
  const std::lock_guard<std::mutex> lock(mutex);
  const std::string line = EncodeEvent(event);
  if (write(STDOUT_FILENO, line.data(), line.size()) !=
      static_cast<ssize_t>(line.size())) {
    _exit(1);  // the driver is gone
  }
}

// Another process, a command, has the store open for a moment. An error that
// ranks agree on keeps its text and loses its payload.
bool IsBusy(const absl::Status& status) {
  return absl::IsUnavailable(status) &&
         absl::StrContains(status.message(), "cannot be locked for writing");
}

// Returns whether an error ends the session and not the writer.
// FailedPrecondition means a store that is out of use after an I/O error, until
// it is opened again.
bool CanGoOn(const absl::Status& status) {
  return status.ok() || IsBusy(status) || absl::IsResourceExhausted(status) ||
         absl::IsFailedPrecondition(status);
}

}  // namespace

absl::Status RunWriter(const WriterOptions& options) {
  constexpr uint64_t kSessionsOfALife = 1'000'000;
  constexpr int kPauseMs = 10;
  SessionOptions session = {.store = options.store,
                            .seed = options.seed,
                            .number = options.life * kSessionsOfALife,
                            .steady = options.steady,
                            .tell = TellDriver};
  while (true) {
    const int64_t began = SteadyMicros();
    absl::Status status = RunSession(session);
    ++session.number;
    if (!CanGoOn(status)) return status;
    if (status.ok()) {
      TellDriver({.kind = Event::Kind::kClosed});
      continue;
    }
    if (!IsBusy(status)) {
      TellDriver({.kind = Event::Kind::kFailed,
                  .began_micros = began,
                  .text = status.ToString()});
    }
    poll(nullptr, 0, kPauseMs);
  }
}

}  // namespace ckptdb::soak
