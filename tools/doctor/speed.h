// SPDX-License-Identifier: Apache-2.0
// Measures the speed of writes, fsyncs and reads in a folder.
#ifndef CKPTDB_TOOLS_DOCTOR_SPEED_H_
#define CKPTDB_TOOLS_DOCTOR_SPEED_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "tools/doctor/file_calls.h"
#include "tools/doctor/peer.h"

namespace ckptdb::tool {

struct Speed {
  uint64_t bytes = 0;                 // size of the file written and read
  double write_bytes_per_second = 0;  // including the final fsync
  // Appending and syncing 4 KiB.
  int64_t sync_p50_micros = 0;
  int64_t sync_p99_micros = 0;
  // Replacing a small file durably, as at the end of a save.
  int64_t replace_p50_micros = 0;
  int64_t replace_p99_micros = 0;

  struct Read {
    std::string host;  // empty for this host
    double bytes_per_second = 0;
  };
  // First this host, which has dropped its cache, then each peer.
  std::vector<Read> reads;
};

// Returns Cancelled after an interrupt, and ResourceExhausted if less than four
// times `bytes` are free.
absl::StatusOr<Speed> MeasureSpeed(FileCalls* files, uint64_t bytes,
                                   const std::vector<Peer*>& peers);

}  // namespace ckptdb::tool

#endif  // CKPTDB_TOOLS_DOCTOR_SPEED_H_
