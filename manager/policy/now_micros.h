// SPDX-License-Identifier: Apache-2.0
// The clock of policies and records; internal to manager/.
#ifndef CKPTDB_MANAGER_POLICY_NOW_MICROS_H_
#define CKPTDB_MANAGER_POLICY_NOW_MICROS_H_

#include <cstdint>

#include "absl/time/clock.h"
#include "manager/manager_options.h"

namespace ckptdb::internal {

// Returns microseconds since 1970, UTC, from
// ManagerOptions::observers.now_micros or the system clock. Throws any
// exception of the caller's function.
inline int64_t NowMicros(const ManagerOptions& options) {
  return options.observers.now_micros ? options.observers.now_micros()
                                      : absl::ToUnixMicros(absl::Now());
}

}  // namespace ckptdb::internal

#endif  // CKPTDB_MANAGER_POLICY_NOW_MICROS_H_
