#include "ckptdb/cuda/tables/row_capture.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "ckptdb/cuda/kernels/row_kernels.h"
#include "ckptdb/cuda/rows/row_lanes.h"
#include "ckptdb/cuda/runtime/buffer.h"
#include "ckptdb/cuda/runtime/status.h"
#include "ckptdb/schema/status.h"

namespace ckptdb::internal {
namespace {

// Copies whole lanes and returns their digest.
uint64_t CopyAndDigest(const char* from, uint64_t bytes, char* to) {
  uint64_t digest = 0;
  for (uint64_t at = 0; at < bytes; at += kLaneBytes) {
    Lane lane;
    std::memcpy(&lane, from + at, kLaneBytes);
    std::memcpy(to + at, &lane, kLaneBytes);
    digest += MixLane(at / kLaneBytes, lane);
  }
  return digest;
}

}  // namespace

absl::StatusOr<std::unique_ptr<RowCapture>> RowCapture::Begin(
    DeviceContext* context, const TableRows* table, RowList list,
    std::vector<int64_t> ids) {
  CKPTDB_ASSIGN_OR_RETURN(const DeviceScope scope, context->Enter());
  CKPTDB_ASSIGN_OR_RETURN(CudaEvent gathered, CudaEvent::Create());
  std::unique_ptr<RowCapture> capture(new RowCapture(
      context, table, std::move(list), std::move(ids), std::move(gathered)));
  capture->CutChunks();
  if (capture->chunks_.empty()) return capture;
  const uint64_t bytes = capture->bytes_ + capture->digests_bytes();
  absl::StatusOr<DevicePool::Loan> staging = context->staging().Take(bytes);
  if (staging.ok()) {
    capture->staging_ = *std::move(staging);
    CKPTDB_RETURN_IF_ERROR(capture->SetAside());
  } else if (absl::IsResourceExhausted(staging.status())) {
    CKPTDB_RETURN_IF_ERROR(capture->PassThrough());
  } else {
    return staging.status();
  }
  return capture;
}

RowCapture::RowCapture(DeviceContext* context, const TableRows* table,
                       RowList list, std::vector<int64_t> ids,
                       CudaEvent gathered)
    : context_(context),
      table_(*table),
      list_(std::move(list)),
      ids_(std::move(ids)),
      gathered_(std::move(gathered)) {}

RowCapture::~RowCapture() {
  if (queued_) context_->Synchronize().IgnoreError();
}

// All rows of a slot lie together, as a block of rows has them.
void RowCapture::CutChunks() {
  for (size_t slot = 0; slot < table_.values.size(); ++slot) {
    const uint64_t padded = PaddedBytes(table_.values[slot].row_bytes);
    const uint64_t most =
        std::max<uint64_t>(context_->limits().chunk_bytes / padded, 1);
    for (uint64_t first = 0; first < ids_.size(); first += most) {
      const uint64_t rows = std::min<uint64_t>(most, ids_.size() - first);
      chunks_.push_back({slot, first, rows, rows * padded, bytes_});
      bytes_ += rows * padded;
    }
  }
}

RowCapture::Staged RowCapture::StagedAt(size_t chunk) const {
  return {staging_.get() + chunks_[chunk].at,
          staging_.get() + bytes_ + chunk * sizeof(uint64_t)};
}

absl::Status RowCapture::Gather(const Chunk& chunk, const Staged& to) {
  queued_ = true;
  const GatherRowsOfSlot rows = {table_.values[chunk.slot],
                                 list_.get(),
                                 chunk.first,
                                 chunk.rows,
                                 nullptr,
                                 reinterpret_cast<Lane*>(to.rows),
                                 reinterpret_cast<uint64_t*>(to.digest)};
  CKPTDB_RETURN_IF_ERROR(CudaStatus(
      cudaMemsetAsync(to.digest, 0, sizeof(uint64_t), context_->side()),
      "cudaMemsetAsync of a digest"));
  return CudaStatus(
      LaunchGather(rows, context_->side()),
      absl::StrCat("the kernel that gathers ", chunk.rows, " rows of slot \"",
                   table_.slots[chunk.slot].name, "\""));
}

// Work that is queued on the trainer's stream from now on may write the table
// when the rows were gathered.
absl::Status RowCapture::SetAside() {
  for (size_t c = 0; c < chunks_.size(); ++c) {
    CKPTDB_RETURN_IF_ERROR(Gather(chunks_[c], StagedAt(c)));
  }
  CKPTDB_RETURN_IF_ERROR(gathered_.Record(context_->side()));
  return gathered_.Await(table_.stream);
}

// The bytes of the largest chunk and its digest, in whole lanes.
uint64_t RowCapture::PlaceBytes() const {
  uint64_t most = 0;
  for (const Chunk& chunk : chunks_) most = std::max(most, chunk.bytes);
  return most + kLaneBytes;
}

absl::StatusOr<std::vector<RowCapture::Place>> RowCapture::MakeRing() const {
  const size_t places =
      std::min<size_t>(context_->limits().ring_slots, chunks_.size());
  std::vector<Place> ring;
  for (size_t i = 0; i < places; ++i) {
    CKPTDB_ASSIGN_OR_RETURN(PinnedPool::Loan buffer,
                            context_->pinned().Take(PlaceBytes()));
    CKPTDB_ASSIGN_OR_RETURN(CudaEvent done, CudaEvent::Create());
    ring.push_back({std::move(buffer), std::move(done)});
  }
  return ring;
}

absl::Status RowCapture::AllocateHost() {
  host_ = AllocateArray<char>(bytes_);
  if (host_ != nullptr) return absl::OkStatus();
  return absl::ResourceExhaustedError(
      absl::StrCat("cannot allocate ", bytes_, " bytes for ", ids_.size(),
                   " rows of a table in device memory"));
}

// The digest goes behind the rows.
absl::Status RowCapture::StartCopy(const Chunk& chunk, const Staged& from,
                                   Place* place) {
  queued_ = true;
  place->chunk = &chunk;
  CKPTDB_RETURN_IF_ERROR(CopyToHost(place->buffer.get(), from.rows, chunk.bytes,
                                    context_->copies()));
  CKPTDB_RETURN_IF_ERROR(CopyToHost(place->buffer.get() + chunk.bytes,
                                    from.digest, sizeof(uint64_t),
                                    context_->copies()));
  return place->done.Record(context_->copies());
}

absl::Status RowCapture::FinishCopy(Place* place) {
  const Chunk& chunk = *std::exchange(place->chunk, nullptr);
  CKPTDB_RETURN_IF_ERROR(place->done.Synchronize());
  uint64_t expected = 0;
  std::memcpy(&expected, place->buffer.get() + chunk.bytes, sizeof(expected));
  if (CopyAndDigest(place->buffer.get(), chunk.bytes, host_.get() + chunk.at) ==
      expected) {
    return absl::OkStatus();
  }
  return absl::DataLossError(absl::StrCat(
      "slot \"", table_.slots[chunk.slot].name, "\": the copy of ", chunk.rows,
      " rows from the device has changed their bytes"));
}

// Copies what is set aside.
absl::Status RowCapture::CopyStaged() {
  CKPTDB_ASSIGN_OR_RETURN(std::vector<Place> ring, MakeRing());
  WaitForStream wait(context_->copies());
  CKPTDB_RETURN_IF_ERROR(gathered_.Await(context_->copies()));
  for (size_t c = 0; c < chunks_.size(); ++c) {
    Place& place = ring[c % ring.size()];
    if (place.chunk != nullptr) CKPTDB_RETURN_IF_ERROR(FinishCopy(&place));
    CKPTDB_RETURN_IF_ERROR(StartCopy(chunks_[c], StagedAt(c), &place));
  }
  for (size_t c = 0; c < ring.size(); ++c) {
    Place& place = ring[(chunks_.size() + c) % ring.size()];
    if (place.chunk != nullptr) CKPTDB_RETURN_IF_ERROR(FinishCopy(&place));
  }
  wait.Dismiss();
  queued_ = false;
  return absl::OkStatus();
}

// The trainer's stream has nothing to wait for: the host does.
absl::Status RowCapture::PassThrough() {
  CKPTDB_RETURN_IF_ERROR(AllocateHost());
  CKPTDB_ASSIGN_OR_RETURN(std::vector<Place> ring, MakeRing());
  const uint64_t window = PlaceBytes();
  CKPTDB_ASSIGN_OR_RETURN(const DevicePool::Loan windows,
                          context_->windows().Take(window * ring.size()));
  WaitForStream wait(context_->copies());
  WaitForStream gathers(context_->side());
  for (size_t c = 0; c < chunks_.size(); ++c) {
    const size_t number = c % ring.size();
    Place& place = ring[number];
    // The window is free when the chunk before has left it.
    if (place.chunk != nullptr) CKPTDB_RETURN_IF_ERROR(FinishCopy(&place));
    char* const rows = windows.get() + number * window;
    const Staged staged = {rows, rows + chunks_[c].bytes};
    CKPTDB_RETURN_IF_ERROR(Gather(chunks_[c], staged));
    CKPTDB_RETURN_IF_ERROR(gathered_.Record(context_->side()));
    CKPTDB_RETURN_IF_ERROR(gathered_.Await(context_->copies()));
    CKPTDB_RETURN_IF_ERROR(StartCopy(chunks_[c], staged, &place));
  }
  for (Place& place : ring) {
    if (place.chunk != nullptr) CKPTDB_RETURN_IF_ERROR(FinishCopy(&place));
  }
  wait.Dismiss();
  gathers.Dismiss();
  queued_ = false;
  fetched_ = true;
  return absl::OkStatus();
}

absl::Status RowCapture::Fetch() {
  if (!fetched_ && !chunks_.empty()) {
    CKPTDB_ASSIGN_OR_RETURN(const DeviceScope scope, context_->Enter());
    CKPTDB_RETURN_IF_ERROR(AllocateHost());
    CKPTDB_RETURN_IF_ERROR(CopyStaged());
    staging_ = {};
  }
  fetched_ = true;
  uint64_t at = 0;
  for (const SlotView& slot : table_.values) {
    const uint64_t padded = PaddedBytes(slot.row_bytes);
    columns_.push_back({host_.get() + at, padded});
    at += padded * ids_.size();
  }
  return absl::OkStatus();
}

absl::StatusOr<RowBlock> RowCapture::Block(uint64_t /*block*/) const {
  if (fetched_) return RowBlock{ids_, columns_};
  return absl::FailedPreconditionError(
      "the rows are still on the device; call Fetch first");
}

}  // namespace ckptdb::internal
