// SPDX-License-Identifier: Apache-2.0
#include "db/base/home_process.h"

#include <pthread.h>
#include <unistd.h>

#include <atomic>

#include "absl/strings/str_cat.h"
#include "db/base/exit_task.h"

namespace ckptdb::internal {
namespace {

// The number of forks between this process and the creation of the first
// object. Every call reads it, so it must not cost a system call.
std::atomic<uint64_t> forks = 0;

uint64_t WatchForks() {
  static const int kWatched = pthread_atfork(
      nullptr, nullptr, [] { forks.fetch_add(1, std::memory_order_relaxed); });
  static_cast<void>(kWatched);
  return forks.load(std::memory_order_relaxed);
}

}  // namespace

HomeProcess::HomeProcess() : process_(getpid()), forks_(WatchForks()) {}

bool HomeProcess::IsForked() const {
  return forks.load(std::memory_order_relaxed) != forks_;
}

absl::Status HomeProcess::Check(absl::string_view what) const {
  if (!IsForked()) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      what, ": process ", getpid(), " was forked from process ", process_,
      ", which has used ckptdb; call exec() in the child, start it with spawn, "
      "or start it before the first store is opened"));
}

absl::Status HomeProcess::CheckAlive(absl::string_view what) const {
  absl::Status status = Check(what);
  return status.ok() ? CheckNotExited(what) : status;
}

absl::Status EnterLibrary(absl::string_view what) {
  static const HomeProcess kFirst;
  return kFirst.CheckAlive(what);
}

}  // namespace ckptdb::internal
