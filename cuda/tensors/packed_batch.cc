// SPDX-License-Identifier: Apache-2.0
#include "cuda/tensors/packed_batch.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "cuda/kernels/tensor_kernels.h"
#include "cuda/runtime/status.h"
#include "db/base/parallel.h"
#include "schema/status.h"

namespace ckptdb::internal {
namespace {

// On one core, digests take several times as long as the bus takes to copy.
constexpr int kDigestThreads = 8;

}  // namespace

absl::StatusOr<std::unique_ptr<PackedBatch>> PackedBatch::Begin(
    DeviceContext* context, DevicePool* pool, Packing packing) {
  CKPTDB_ASSIGN_OR_RETURN(const DeviceScope scope, context->Enter());
  const uint64_t pieces = packing.pieces().size();
  const uint64_t list = pieces * (sizeof(TensorPiece) + sizeof(uint64_t));
  CKPTDB_ASSIGN_OR_RETURN(CudaEvent packed, CudaEvent::Create());
  CKPTDB_ASSIGN_OR_RETURN(DevicePool::Loan device,
                          pool->Take(packing.bytes() + list));
  CKPTDB_ASSIGN_OR_RETURN(PinnedPool::Loan control,
                          context->pinned().Take(list));
  std::unique_ptr<PackedBatch> batch(
      new PackedBatch(context, std::move(packing), std::move(packed),
                      std::move(device), std::move(control)));
  CKPTDB_RETURN_IF_ERROR(batch->QueuePacking());
  return batch;
}

PackedBatch::PackedBatch(DeviceContext* context, Packing packing,
                         CudaEvent packed, DevicePool::Loan device,
                         PinnedPool::Loan control)
    : context_(context),
      packing_(std::move(packing)),
      packed_(std::move(packed)),
      device_(std::move(device)),
      control_(std::move(control)) {}

// Copy waits for its own copies, even if it fails.
PackedBatch::~PackedBatch() {
  if (!queued_) return;
  const absl::StatusOr<DeviceScope> scope = context_->Enter();
  const WaitForStream wait(context_->side());
}

uint64_t PackedBatch::list_bytes() const {
  return packing_.pieces().size() * sizeof(TensorPiece);
}

char* PackedBatch::device_list() const {
  return device_.get() + packing_.bytes();
}

uint64_t PackedBatch::digests_bytes() const {
  return packing_.pieces().size() * sizeof(uint64_t);
}

absl::Status PackedBatch::QueuePacking() {
  const std::vector<TensorPiece>& pieces = packing_.pieces();
  std::memcpy(control_.get(), pieces.data(), list_bytes());
  queued_ = true;
  const cudaStream_t side = context_->side();
  CKPTDB_RETURN_IF_ERROR(
      CopyToDevice(device_list(), control_.get(), list_bytes(), side));
  char* const digests = device_list() + list_bytes();
  CKPTDB_RETURN_IF_ERROR(CudaStatus(
      LaunchPack(reinterpret_cast<const TensorPiece*>(device_list()),
                 pieces.size(), device_.get(),
                 reinterpret_cast<uint64_t*>(digests), side),
      absl::StrCat("packing ", packing_.bytes(), " bytes of tensors")));
  return packed_.Record(side);
}

absl::Status PackedBatch::Fetch(char* memory) {
  CKPTDB_RETURN_IF_ERROR(Copy(memory));
  return Check(memory);
}

absl::Status PackedBatch::Copy(char* memory) {
  CKPTDB_ASSIGN_OR_RETURN(const DeviceScope scope, context_->Enter());
  CKPTDB_RETURN_IF_ERROR(CopyChunks(memory));
  queued_ = false;
  return absl::OkStatus();
}

// After an error, waits for the copies in flight, because the ring is destroyed
// and the caller may free `memory`.
absl::Status PackedBatch::CopyChunks(char* memory) {
  const std::vector<Packing::Chunk> chunks =
      packing_.Cut(context_->limits().chunk_bytes);
  CKPTDB_ASSIGN_OR_RETURN(const std::vector<Slot> ring,
                          MakeRing(chunks, memory));
  WaitForStream wait(context_->copies());
  CKPTDB_RETURN_IF_ERROR(packed_.Await(context_->copies()));
  CKPTDB_RETURN_IF_ERROR(CopyToHost(control_.get() + list_bytes(),
                                    device_list() + list_bytes(),
                                    digests_bytes(), context_->copies()));
  for (size_t c = 0; c < chunks.size() + ring.size(); ++c) {
    const Slot& slot = ring[c % ring.size()];
    if (c >= ring.size()) {
      const Packing::Chunk& before = chunks[c - ring.size()];
      CKPTDB_RETURN_IF_ERROR(FinishChunk(before, memory, slot));
    }
    if (c >= chunks.size()) continue;
    CKPTDB_RETURN_IF_ERROR(StartChunk(chunks[c], memory, slot));
  }
  wait.Dismiss();
  return absl::OkStatus();
}

absl::StatusOr<std::vector<PackedBatch::Slot>> PackedBatch::MakeRing(
    const std::vector<Packing::Chunk>& chunks, const char* memory) const {
  const DeviceLimits& limits = context_->limits();
  const bool direct = std::all_of(
      chunks.begin(), chunks.end(), [&](const Packing::Chunk& chunk) {
        return IsPinned(memory + chunk.at, chunk.bytes);
      });
  const auto most = static_cast<size_t>(limits.ring_slots);
  std::vector<Slot> ring;
  for (size_t s = 0; s < std::min(chunks.size(), most); ++s) {
    CKPTDB_ASSIGN_OR_RETURN(CudaEvent done, CudaEvent::Create());
    ring.push_back({std::move(done), {}});
    if (direct) continue;
    CKPTDB_ASSIGN_OR_RETURN(ring.back().buffer,
                            context_->pinned().Take(limits.chunk_bytes));
  }
  return ring;
}

absl::Status PackedBatch::StartChunk(const Packing::Chunk& chunk, char* memory,
                                     const Slot& slot) {
  char* const buffer = slot.buffer.get();
  CKPTDB_RETURN_IF_ERROR(CopyToHost(
      buffer == nullptr ? memory + chunk.at : buffer,
      device_.get() + chunk.packed, chunk.bytes, context_->copies()));
  return slot.done.Record(context_->copies());
}

absl::Status PackedBatch::FinishChunk(const Packing::Chunk& chunk, char* memory,
                                      const Slot& slot) {
  CKPTDB_RETURN_IF_ERROR(slot.done.Synchronize());
  if (slot.buffer.get() != nullptr) {
    std::memcpy(memory + chunk.at, slot.buffer.get(), chunk.bytes);
  }
  return absl::OkStatus();
}

absl::Status PackedBatch::Check(const char* memory) const {
  const char* const digests = control_.get() + list_bytes();
  return ParallelFor(
      kDigestThreads, packing_.pieces().size(),
      [&](int, uint64_t p) -> absl::Status {
        uint64_t expected = 0;
        std::memcpy(&expected, digests + p * sizeof(expected),
                    sizeof(expected));
        const uint64_t digest =
            DigestOf(packing_.pieces()[p], memory + packing_.AtOf(p));
        if (digest == expected) return absl::OkStatus();
        return absl::DataLossError(absl::StrCat(
            packing_.Describe(p),
            " changed on their way from the device: digest ", absl::Hex(digest),
            ", expected ", absl::Hex(expected)));
      });
}

}  // namespace ckptdb::internal
