// Memory for rows on their way to the device; internal to cuda/.
#ifndef CKPTDB_CUDA_TABLES_UPLOAD_H_
#define CKPTDB_CUDA_TABLES_UPLOAD_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "ckptdb/cuda/rows/row_lanes.h"
#include "ckptdb/cuda/runtime/device_context.h"
#include "ckptdb/cuda/runtime/stream.h"

namespace ckptdb::internal {

inline uint64_t AlignLane(uint64_t bytes) {
  return (bytes + kLaneBytes - 1) / kLaneBytes * kLaneBytes;
}

// The same on both sides: what is appended on the host is at the same place on
// the device when it was sent. Used by one thread at a time. Nothing of it is
// on its way when it goes.
class Upload {
 public:
  // `bytes` is what is appended at most, each part in whole lanes, with rows of
  // `slots` slots.
  static absl::StatusOr<std::unique_ptr<Upload>> Make(DeviceContext* context,
                                                      uint64_t bytes,
                                                      size_t slots);

  void Restart();
  // Appends bytes, and returns where they will be on the device.
  char* Append(const void* bytes, uint64_t count);
  // Appends rows of a slot, whose digest is to be checked. Returns where they
  // will be, and sets *digest to where the device is to add up theirs.
  SlotView AppendRows(const char* rows, uint64_t count, uint32_t row_bytes,
                      uint64_t** digest);

  // Queues the copy to the device, on the side stream.
  absl::Status Send();
  // Waits for all that was queued, and returns whether the digests are those
  // of what was sent.
  absl::StatusOr<bool> Finish();

 private:
  Upload(DeviceContext* context, uint64_t bytes, PinnedPool::Loan host,
         DevicePool::Loan device, CudaEvent done);

  DeviceContext* const context_;
  const uint64_t bytes_;  // without the digests, which are behind them
  const PinnedPool::Loan host_;
  const DevicePool::Loan device_;
  const CudaEvent done_;
  uint64_t used_ = 0;
  std::vector<uint64_t> digests_;
};

}  // namespace ckptdb::internal

#endif  // CKPTDB_CUDA_TABLES_UPLOAD_H_
