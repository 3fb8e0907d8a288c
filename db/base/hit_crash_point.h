// SPDX-License-Identifier: Apache-2.0
// Reports that a crash point of db/options.h is reached; internal to db/.
#ifndef CKPTDB_DB_BASE_HIT_CRASH_POINT_H_
#define CKPTDB_DB_BASE_HIT_CRASH_POINT_H_

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "db/base/call_guard.h"
#include "db/options.h"

namespace ckptdb::internal {

// Calls the hook, if set. If it throws, returns Internal with the exception's
// text and `option`, which names the hook.
inline absl::Status HitCrashPoint(
    const std::function<void(absl::string_view point)>& hook,
    absl::string_view option, absl::string_view point) {
  if (!hook) return absl::OkStatus();
  return CallGuarded(option, [&] { hook(point); });
}

}  // namespace ckptdb::internal

#endif  // CKPTDB_DB_BASE_HIT_CRASH_POINT_H_
