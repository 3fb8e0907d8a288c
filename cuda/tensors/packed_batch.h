// SPDX-License-Identifier: Apache-2.0
// Tensors packed in device memory, and their copy to the host; internal to
// cuda/.
#ifndef CKPTDB_CUDA_TENSORS_PACKED_BATCH_H_
#define CKPTDB_CUDA_TENSORS_PACKED_BATCH_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "cuda/runtime/device_context.h"
#include "cuda/runtime/stream.h"
#include "cuda/tensors/packing.h"

namespace ckptdb::internal {

// The path of the bytes, and the order of the work:
//
//   side stream     list of pieces to the device, packing, `packed`
//   copy stream     waits for `packed`; digests, then one chunk for each slot
//   of
//                   the ring, and its `done`
//   host            waits for a slot's `done` before reusing the slot; checks
//                   all digests when all chunks have arrived
//
// Pinned host memory is copied to directly, other memory through a pinned
// buffer in each slot.
//
// Used by one thread at a time.
class PackedBatch {
 public:
  // Queues the packing after the work queued on the side stream. The packed
  // buffer comes from `pool`. Returns ResourceExhausted if the pool or the
  // device has too little memory; then nothing is queued.
  static absl::StatusOr<std::unique_ptr<PackedBatch>> Begin(
      DeviceContext* context, DevicePool* pool, Packing packing);
  // Waits for the queued work.
  ~PackedBatch();
  PackedBatch(const PackedBatch&) = delete;
  PackedBatch& operator=(const PackedBatch&) = delete;

  // Streams that wait for it may change the tensors.
  const CudaEvent& packed() const { return packed_; }

  // Copies the tensors to their places in `memory`, and checks their digests.
  // Fetch is Copy followed by Check. Call each at most once.
  absl::Status Fetch(char* memory);
  absl::Status Copy(char* memory);
  absl::Status Check(const char* memory) const;

 private:
  // A slot of the ring.
  struct Slot {
    CudaEvent done;
    PinnedPool::Loan buffer;  // empty: copies go to the memory directly
  };

  PackedBatch(DeviceContext* context, Packing packing, CudaEvent packed,
              DevicePool::Loan device, PinnedPool::Loan control);

  // The places of the list of pieces and of their digests, after the packed
  // buffer and in host memory.
  uint64_t list_bytes() const;
  char* device_list() const;
  uint64_t digests_bytes() const;

  absl::Status QueuePacking();
  absl::StatusOr<std::vector<Slot>> MakeRing(
      const std::vector<Packing::Chunk>& chunks, const char* memory) const;
  absl::Status StartChunk(const Packing::Chunk& chunk, char* memory,
                          const Slot& slot);
  static absl::Status FinishChunk(const Packing::Chunk& chunk, char* memory,
                                  const Slot& slot);
  absl::Status CopyChunks(char* memory);

  DeviceContext* const context_;
  const Packing packing_;
  const CudaEvent packed_;
  DevicePool::Loan device_;
  PinnedPool::Loan control_;
  bool queued_ = false;  // queued work that nobody has waited for
};

}  // namespace ckptdb::internal

#endif  // CKPTDB_CUDA_TENSORS_PACKED_BATCH_H_
