// SPDX-License-Identifier: Apache-2.0
// The process that trains and saves, until it is killed.
#ifndef CKPTDB_BENCH_SOAK_WRITER_H_
#define CKPTDB_BENCH_SOAK_WRITER_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"

namespace ckptdb::soak {

struct WriterOptions {
  std::string store;
  uint64_t seed = 0;    // of the content
  uint64_t life = 0;    // how often a writer was started before
  bool steady = false;  // a single session, unless it fails
};

// Sessions one after the other, each on another number of ranks: opens the
// store, restores the newest step, checks it, trains and saves for a while,
// closes. Saves that fail for lack of space are reported and skipped. Writes
// each event to standard output. Returns only on an error that neither a full
// disk nor another owner explains.
absl::Status RunWriter(const WriterOptions& options);

}  // namespace ckptdb::soak

#endif  // CKPTDB_BENCH_SOAK_WRITER_H_
