// SPDX-License-Identifier: Apache-2.0
#include "db/base/progress.h"

#include <algorithm>

#include "db/base/call_guard.h"

namespace ckptdb::internal {

absl::Status Progress::Advance(uint64_t bytes) {
  if (!report_ || bytes == 0) return absl::OkStatus();
  const MutexLock lock(&mutex_);
  const uint64_t done = done_bytes_ = std::min(done_bytes_ + bytes, all_bytes_);
  return CallGuarded(name_, [&] { report_(done, all_bytes_); });
}

}  // namespace ckptdb::internal
