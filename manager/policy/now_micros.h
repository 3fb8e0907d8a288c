// The time that policies are told and records have; internal to manager/.
#ifndef CKPTDB_MANAGER_POLICY_NOW_MICROS_H_
#define CKPTDB_MANAGER_POLICY_NOW_MICROS_H_

#include <cstdint>

#include "absl/time/clock.h"
#include "ckptdb/manager/checkpoint_manager.h"

namespace ckptdb::internal {

// Microseconds since 1970, UTC, by ManagerOptions::now_micros or the machine's
// clock. Throws what the caller's function throws.
inline int64_t NowMicros(const ManagerOptions& options) {
  return options.now_micros ? options.now_micros()
                            : absl::ToUnixMicros(absl::Now());
}

}  // namespace ckptdb::internal

#endif  // CKPTDB_MANAGER_POLICY_NOW_MICROS_H_
