// SPDX-License-Identifier: Apache-2.0
// One opening of the store by the writer, with all its ranks.
#ifndef CKPTDB_BENCH_SOAK_SESSION_H_
#define CKPTDB_BENCH_SOAK_SESSION_H_

#include <cstdint>
#include <functional>
#include <string>

#include "absl/status/status.h"
#include "bench/soak/content.h"
#include "bench/soak/event.h"

namespace ckptdb::soak {

struct SessionOptions {
  std::string store;
  uint64_t seed = 0;    // of the content
  uint64_t number = 0;  // seeds its random choices
  bool steady = false;  // the store stays open until the end of the process
  // Called by any thread, one call at a time.
  std::function<void(const Event& event)> tell;
};

// Opens the store, restores the step saved last, checks it, trains and saves
// for a random number of steps, and closes. Saves that fail for lack of space
// are reported and skipped. Returns the error that ended it.
absl::Status RunSession(const SessionOptions& options);

}  // namespace ckptdb::soak

#endif  // CKPTDB_BENCH_SOAK_SESSION_H_
