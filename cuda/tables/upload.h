// SPDX-License-Identifier: Apache-2.0
// Memory for uploading rows to the device; internal to cuda/.
#ifndef CKPTDB_CUDA_TABLES_UPLOAD_H_
#define CKPTDB_CUDA_TABLES_UPLOAD_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "cuda/rows/row_lanes.h"
#include "cuda/runtime/device_context.h"
#include "cuda/runtime/stream.h"

namespace ckptdb::internal {

inline uint64_t AlignLane(uint64_t bytes) {
  return (bytes + kLaneBytes - 1) / kLaneBytes * kLaneBytes;
}

// A buffer in host memory and one on the device with the same layout. Used by
// one thread at a time. Finish must have returned before it is destroyed.
class Upload {
 public:
  // At most `bytes` bytes are appended, counting each part rounded up to whole
  // lanes, in rows of `slots` slots.
  static absl::StatusOr<std::unique_ptr<Upload>> Make(DeviceContext* context,
                                                      uint64_t bytes,
                                                      size_t slots);

  void Restart();
  // Appends bytes, and returns their address on the device.
  char* Append(const void* bytes, uint64_t count);
  // Appends rows of a slot. Returns their address on the device, and sets
  // *digest to the address where the device must add up their digest.
  SlotView AppendRows(const char* rows, uint64_t count, uint32_t row_bytes,
                      uint64_t** digest);

  // Queues the copy to the device, on the side stream.
  absl::Status Send();
  // Waits for all queued work, and returns whether the device's digests match
  // those of the sent rows.
  absl::StatusOr<bool> Finish();

 private:
  Upload(DeviceContext* context, uint64_t bytes, PinnedPool::Loan host,
         DevicePool::Loan device, CudaEvent done);

  DeviceContext* const context_;
  const uint64_t bytes_;  // without the digests, which follow
  const PinnedPool::Loan host_;
  const DevicePool::Loan device_;
  const CudaEvent done_;
  uint64_t used_ = 0;
  std::vector<uint64_t> digests_;
};

}  // namespace ckptdb::internal

#endif  // CKPTDB_CUDA_TABLES_UPLOAD_H_
