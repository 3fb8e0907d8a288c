// SPDX-License-Identifier: Apache-2.0
#include "cuda/tables/row_capture.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "cuda/kernels/row_kernels.h"
#include "cuda/rows/row_lanes.h"
#include "cuda/runtime/buffer.h"
#include "cuda/runtime/status.h"
#include "db/base/row_block.h"
#include "schema/status.h"

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

// Copies bounds, which follow `lanes` lanes, and returns their digest.
uint64_t CopyBounds(const char* from, uint64_t bytes, uint64_t lanes,
                    char* to) {
  uint64_t digest = 0;
  for (uint64_t at = 0; at < bytes; at += sizeof(Int8Bounds)) {
    uint64_t bits = 0;
    std::memcpy(&bits, from + at, sizeof(bits));
    std::memcpy(to + at, &bits, sizeof(bits));
    digest += MixLane(lanes + at / sizeof(bits), {bits, 0});
  }
  return digest;
}

}  // namespace

absl::StatusOr<std::unique_ptr<RowCapture>> RowCapture::Begin(
    DeviceContext* context, const TableRows* table, RowList list, RowIds ids,
    RowForm form) {
  CKPTDB_ASSIGN_OR_RETURN(const DeviceScope scope, context->Enter());
  CKPTDB_ASSIGN_OR_RETURN(CudaEvent gathered, CudaEvent::Create());
  std::unique_ptr<RowCapture> capture(
      new RowCapture(context, table, std::move(list), std::move(ids),
                     std::move(gathered), form));
  // Each round but the last switches a slot to raw.
  do {
    CKPTDB_RETURN_IF_ERROR(capture->TakeRows());
  } while (capture->refused_);
  return capture;
}

RowCapture::RowCapture(DeviceContext* context, const TableRows* table,
                       RowList list, RowIds ids, CudaEvent gathered,
                       RowForm form)
    : context_(context),
      table_(*table),
      list_(std::move(list)),
      ids_(std::move(ids)),
      gathered_(std::move(gathered)) {
  for (const Slot& slot : table_.slots) {
    forms_.push_back(form == RowForm::kEncoded ? SlotForm::Encoded(slot)
                                               : SlotForm::Raw(slot));
  }
  encoded_.resize(forms_.size());
}

RowCapture::~RowCapture() {
  if (queued_) context_->Synchronize().IgnoreError();
}

// All rows of a slot are adjacent, as in a RowBlock.
void RowCapture::CutChunks() {
  chunks_.clear();
  host_at_.clear();
  bytes_ = 0;
  host_bytes_ = 0;
  for (size_t slot = 0; slot < forms_.size(); ++slot) {
    const SlotForm& form = forms_[slot];
    host_at_.push_back(host_bytes_);
    host_bytes_ += form.BytesOf(ids_.size());
    const uint64_t most =
        std::max<uint64_t>(context_->limits().chunk_bytes / form.bytes(), 1);
    for (uint64_t first = 0; first < ids_.size(); first += most) {
      const uint64_t rows = std::min<uint64_t>(most, ids_.size() - first);
      chunks_.push_back({slot, first, rows, form.BytesOf(rows), bytes_});
      bytes_ += chunks_.back().bytes;
    }
  }
}

uint64_t RowCapture::findings_bytes() const {
  const bool any =
      std::any_of(forms_.begin(), forms_.end(),
                  [](const SlotForm& form) { return form.encoded(); });
  return any ? AlignLane(forms_.size() * sizeof(CodesFound)) : 0;
}

RowCapture::Staged RowCapture::StagedAt(size_t chunk) const {
  return {staging_.get() + chunks_[chunk].at,
          staging_.get() + bytes_ + chunk * sizeof(uint64_t)};
}

// Gathers the rows. Stops if a slot cannot be encoded.
absl::Status RowCapture::TakeRows() {
  refused_ = host_waited_ = false;
  CutChunks();
  if (chunks_.empty()) return absl::OkStatus();
  absl::StatusOr<DevicePool::Loan> staging =
      context_->staging().Take(bytes_ + digests_bytes() + findings_bytes());
  if (!staging.ok()) {
    return absl::IsResourceExhausted(staging.status()) ? PassThrough()
                                                       : staging.status();
  }
  staging_ = *std::move(staging);
  CKPTDB_RETURN_IF_ERROR(StageRows());
  if (refused_) staging_ = {};
  return absl::OkStatus();
}

// Clears the encoder's statistics.
absl::Status RowCapture::ClearFindings(char* found) {
  if (findings_bytes() == 0) return absl::OkStatus();
  found_ = reinterpret_cast<CodesFound*>(found);
  queued_ = true;
  return CudaStatus(
      cudaMemsetAsync(found, 0, findings_bytes(), context_->side()),
      "cudaMemsetAsync of the findings about rows");
}

// Waits for the gathers and reads the encoder's statistics: twice, because no
// digest covers them.
absl::Status RowCapture::ReadFindings() {
  const uint64_t bytes = findings_bytes();
  CKPTDB_ASSIGN_OR_RETURN(const PinnedPool::Loan copy,
                          context_->pinned().Take(2 * bytes));
  WaitForStream wait(context_->side());
  for (const uint64_t at : {uint64_t{0}, bytes}) {
    CKPTDB_RETURN_IF_ERROR(CopyToHost(copy.get() + at,
                                      reinterpret_cast<const char*>(found_),
                                      bytes, context_->side()));
  }
  CKPTDB_RETURN_IF_ERROR(
      CudaStatus(cudaStreamSynchronize(context_->side()),
                 "cudaStreamSynchronize for rows under a lossy codec"));
  wait.Dismiss();
  host_waited_ = true;
  if (std::memcmp(copy.get(), copy.get() + bytes, bytes) != 0) {
    return absl::DataLossError(
        "the encoder's statistics of lossy rows changed on their way from the "
        "device: two copies of them differ");
  }
  for (size_t slot = 0; slot < forms_.size(); ++slot) {
    if (!forms_[slot].encoded()) continue;
    CodesFound found;
    std::memcpy(&found, copy.get() + slot * sizeof(found), sizeof(found));
    encoded_[slot].error = FloatOf(found.error);
    encoded_[slot].magnitude = FloatOf(found.magnitude);
    if (found.refused == 0) continue;
    forms_[slot] = SlotForm::Raw(table_.slots[slot]);
    refused_ = true;
  }
  return absl::OkStatus();
}

absl::Status RowCapture::Launch(const Chunk& chunk, const Staged& to) {
  const SlotForm& form = forms_[chunk.slot];
  const SlotView& slot = table_.values[chunk.slot];
  auto* const batch = reinterpret_cast<Lane*>(to.rows);
  auto* const digest = reinterpret_cast<uint64_t*>(to.digest);
  const NumberRows numbers = {slot, list_.get(), chunk.first, chunk.rows};
  cudaError_t error = cudaSuccess;
  switch (form.codec()) {
    case Codec::kBf16:
      error = LaunchEncode(
          EncodeBf16Rows{numbers, batch, digest, found_ + chunk.slot},
          context_->side());
      break;
    case Codec::kInt8:
      error = LaunchEncode(
          EncodeInt8Rows{
              numbers, batch,
              reinterpret_cast<uint64_t*>(to.rows + form.BoundsAt(chunk.rows)),
              digest, found_ + chunk.slot},
          context_->side());
      break;
    default:
      error = LaunchGather(
          {slot, list_.get(), chunk.first, chunk.rows, nullptr, batch, digest},
          context_->side());
  }
  return CudaStatus(error, absl::StrCat("the kernel that gathers ", chunk.rows,
                                        " rows of slot \"",
                                        table_.slots[chunk.slot].name, "\""));
}

absl::Status RowCapture::Gather(const Chunk& chunk, const Staged& to) {
  queued_ = true;
  CKPTDB_RETURN_IF_ERROR(CudaStatus(
      cudaMemsetAsync(to.digest, 0, sizeof(uint64_t), context_->side()),
      "cudaMemsetAsync of a digest"));
  return Launch(chunk, to);
}

// Makes the trainer's stream wait until the rows are gathered, unless the host
// has already waited for that.
absl::Status RowCapture::StageRows() {
  CKPTDB_RETURN_IF_ERROR(
      ClearFindings(staging_.get() + bytes_ + digests_bytes()));
  for (size_t c = 0; c < chunks_.size(); ++c) {
    CKPTDB_RETURN_IF_ERROR(Gather(chunks_[c], StagedAt(c)));
  }
  if (findings_bytes() > 0) return ReadFindings();
  CKPTDB_RETURN_IF_ERROR(gathered_.Record(context_->side()));
  return gathered_.Await(table_.stream);
}

// The largest chunk and its digest, in whole lanes.
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
  host_ = AllocateArray<char>(host_bytes_);
  if (host_ != nullptr) return absl::OkStatus();
  return absl::ResourceExhaustedError(
      absl::StrCat("cannot allocate ", host_bytes_, " bytes for ", ids_.size(),
                   " rows of a table in device memory"));
}

// The digest follows the rows.
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
  const SlotForm& form = forms_[chunk.slot];
  const char* const from = place->buffer.get();
  char* const to = host_.get() + host_at_[chunk.slot];
  const uint64_t bounds_at = form.BoundsAt(chunk.rows);
  const uint64_t digest =
      CopyAndDigest(from, bounds_at, to + chunk.first * form.padded_bytes()) +
      CopyBounds(
          from + bounds_at, chunk.rows * form.bounds_bytes(),
          bounds_at / kLaneBytes,
          to + form.BoundsAt(ids_.size()) + chunk.first * form.bounds_bytes());
  if (digest == expected) return absl::OkStatus();
  return absl::DataLossError(
      absl::StrCat("slot \"", table_.slots[chunk.slot].name, "\": the copy of ",
                   chunk.rows, " rows from the device changed their bytes"));
}

// Finishes the copies in flight, in the order in which they were started.
absl::Status RowCapture::FinishRing(std::vector<Place>* ring) {
  for (size_t c = 0; c < ring->size(); ++c) {
    Place& place = (*ring)[(chunks_.size() + c) % ring->size()];
    if (place.chunk != nullptr) CKPTDB_RETURN_IF_ERROR(FinishCopy(&place));
  }
  return absl::OkStatus();
}

// Copies the staged rows.
absl::Status RowCapture::CopyStaged() {
  CKPTDB_ASSIGN_OR_RETURN(std::vector<Place> ring, MakeRing());
  WaitForStream wait(context_->copies());
  if (!host_waited_) {
    CKPTDB_RETURN_IF_ERROR(gathered_.Await(context_->copies()));
  }
  for (size_t c = 0; c < chunks_.size(); ++c) {
    Place& place = ring[c % ring.size()];
    if (place.chunk != nullptr) CKPTDB_RETURN_IF_ERROR(FinishCopy(&place));
    CKPTDB_RETURN_IF_ERROR(StartCopy(chunks_[c], StagedAt(c), &place));
  }
  CKPTDB_RETURN_IF_ERROR(FinishRing(&ring));
  wait.Dismiss();
  queued_ = false;
  return absl::OkStatus();
}

// The trainer's stream need not wait, because the host does.
absl::Status RowCapture::PassThrough() {
  CKPTDB_RETURN_IF_ERROR(AllocateHost());
  CKPTDB_ASSIGN_OR_RETURN(std::vector<Place> ring, MakeRing());
  const uint64_t window = PlaceBytes();
  CKPTDB_ASSIGN_OR_RETURN(
      const DevicePool::Loan windows,
      context_->windows().Take(window * ring.size() + findings_bytes()));
  WaitForStream wait(context_->copies());
  WaitForStream gathers(context_->side());
  CKPTDB_RETURN_IF_ERROR(ClearFindings(windows.get() + window * ring.size()));
  for (size_t c = 0; c < chunks_.size(); ++c) {
    const size_t number = c % ring.size();
    Place& place = ring[number];
    // The window is free when the previous chunk has been copied from it.
    if (place.chunk != nullptr) CKPTDB_RETURN_IF_ERROR(FinishCopy(&place));
    char* const rows = windows.get() + number * window;
    const Staged staged = {rows, rows + chunks_[c].bytes};
    CKPTDB_RETURN_IF_ERROR(Gather(chunks_[c], staged));
    CKPTDB_RETURN_IF_ERROR(gathered_.Record(context_->side()));
    CKPTDB_RETURN_IF_ERROR(gathered_.Await(context_->copies()));
    CKPTDB_RETURN_IF_ERROR(StartCopy(chunks_[c], staged, &place));
  }
  CKPTDB_RETURN_IF_ERROR(FinishRing(&ring));
  if (findings_bytes() > 0) CKPTDB_RETURN_IF_ERROR(ReadFindings());
  wait.Dismiss();
  gathers.Dismiss();
  queued_ = false;
  fetched_ = !refused_;
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
  for (size_t slot = 0; slot < forms_.size(); ++slot) {
    slot_values_.push_back(ValuesOf(slot));
  }
  return absl::OkStatus();
}

RowBlock::SlotValues RowCapture::ValuesOf(size_t slot) {
  const SlotForm& form = forms_[slot];
  RowBlock::SlotValues values;
  if (ids_.empty()) return values;
  const char* const rows = host_.get() + host_at_[slot];
  if (!form.encoded()) {
    values.data = rows;
    values.stride_bytes = form.padded_bytes();
    return values;
  }
  EncodedRows& encoded = encoded_[slot];
  encoded.codec = form.codec();
  encoded.codes = rows;
  encoded.stride_bytes = form.padded_bytes();
  encoded.bounds =
      reinterpret_cast<const Int8Bounds*>(rows + form.BoundsAt(ids_.size()));
  values = EncodedValues(&encoded);
  return values;
}

absl::StatusOr<RowBlock> RowCapture::Block(uint64_t /*block*/) const {
  if (fetched_) return RowBlock{ids_.all(), slot_values_};
  return absl::FailedPreconditionError(
      "the rows are still on the device; call Fetch first");
}

}  // namespace ckptdb::internal
