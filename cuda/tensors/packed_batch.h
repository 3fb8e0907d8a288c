// Tensors that are packed in device memory, and their copy to the host;
// internal to cuda/.
#ifndef CKPTDB_CUDA_TENSORS_PACKED_BATCH_H_
#define CKPTDB_CUDA_TENSORS_PACKED_BATCH_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "ckptdb/cuda/runtime/device_context.h"
#include "ckptdb/cuda/runtime/stream.h"
#include "ckptdb/cuda/tensors/packing.h"

namespace ckptdb::internal {

// The way of the bytes, and what waits for what:
//
//   side stream     list of pieces to the device, packing, `packed`
//   copy stream     waits for `packed`; digests, then a chunk for each slot of
//                   the ring, and its `done`
//   host            waits for the `done` of a slot before it uses it again;
//                   checks all digests when all chunks are there
//
// Host memory that is pinned is copied to directly, and other memory by way of
// a pinned buffer in each slot.
//
// Used by one thread at a time.
class PackedBatch {
 public:
  // Queues the packing, behind what is queued on the side stream. The packed
  // buffer is from `pool`. Returns ResourceExhausted if there is no such
  // memory; then nothing was queued.
  static absl::StatusOr<std::unique_ptr<PackedBatch>> Begin(
      DeviceContext* context, DevicePool* pool, Packing packing);
  // Waits for what is queued.
  ~PackedBatch();
  PackedBatch(const PackedBatch&) = delete;
  PackedBatch& operator=(const PackedBatch&) = delete;

  // The tensors may change on the streams that wait for it.
  const CudaEvent& packed() const { return packed_; }

  // Copies the tensors to their places in `memory`, and checks their digests:
  // Copy and then Check. Each is called once.
  absl::Status Fetch(char* memory);
  absl::Status Copy(char* memory);
  absl::Status Check(const char* memory) const;

 private:
  // A place of the ring.
  struct Slot {
    CudaEvent done;
    PinnedPool::Loan buffer;  // none: memory is copied to directly
  };

  PackedBatch(DeviceContext* context, Packing packing, CudaEvent packed,
              DevicePool::Loan device, PinnedPool::Loan control);

  // Where the list of pieces and their digests are, behind the packed buffer
  // and in host memory.
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
  bool queued_ = false;  // something that has not been waited for
};

}  // namespace ckptdb::internal

#endif  // CKPTDB_CUDA_TENSORS_PACKED_BATCH_H_
