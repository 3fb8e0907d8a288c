// How fast writes, fsyncs and reads of a folder are.
#ifndef CKPTDB_TOOLS_DOCTOR_SPEED_H_
#define CKPTDB_TOOLS_DOCTOR_SPEED_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "ckptdb/tools/doctor/file_calls.h"
#include "ckptdb/tools/doctor/peer.h"

namespace ckptdb::tool {

struct Speed {
  uint64_t bytes = 0;                 // of the file that was written and read
  double write_bytes_per_second = 0;  // with the fsync at the end
  // Of appending 4 KiB and syncing them.
  int64_t sync_p50_micros = 0;
  int64_t sync_p99_micros = 0;
  // Of replacing a small file durably, as the end of a save does.
  int64_t replace_p50_micros = 0;
  int64_t replace_p99_micros = 0;

  struct Read {
    std::string host;  // empty for this one
    double bytes_per_second = 0;
  };
  // By this host, which has dropped what it had cached, and by each peer.
  std::vector<Read> reads;
};

// Returns Cancelled after an interrupt, ResourceExhausted when less than four
// times `bytes` are free.
absl::StatusOr<Speed> MeasureSpeed(FileCalls* files, uint64_t bytes,
                                   const std::vector<Peer*>& peers);

}  // namespace ckptdb::tool

#endif  // CKPTDB_TOOLS_DOCTOR_SPEED_H_
