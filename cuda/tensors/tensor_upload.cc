// SPDX-License-Identifier: Apache-2.0
#include "cuda/tensors/tensor_upload.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "cuda/kernels/tensor_kernels.h"
#include "cuda/runtime/status.h"
#include "db/base/parallel.h"
#include "schema/status.h"

namespace ckptdb::internal {
namespace {

// Threads that copy a chunk to pinned memory.
constexpr int kCopyThreads = 4;

uint64_t MostPieces(uint64_t chunk_bytes) {
  return (chunk_bytes + kMaxPieceBytes - 1) / kMaxPieceBytes;
}

}  // namespace

absl::StatusOr<std::unique_ptr<TensorUpload>> TensorUpload::Begin(
    DeviceContext* context, absl::string_view name, const TensorState& tensor,
    uint64_t bytes) {
  CKPTDB_ASSIGN_OR_RETURN(const DeviceScope scope, context->Enter());
  std::unique_ptr<TensorUpload> upload(
      new TensorUpload(context, name, TensorPlace::Of(tensor, bytes), bytes));
  const cudaStream_t copies = context->copies();
  CKPTDB_RETURN_IF_ERROR(
      AwaitStream(copies, static_cast<cudaStream_t>(tensor.stream)));
  if (tensor.event != nullptr) {
    CKPTDB_RETURN_IF_ERROR(
        AwaitEvent(copies, static_cast<cudaEvent_t>(tensor.event)));
  }
  return upload;
}

TensorUpload::~TensorUpload() {
  const bool under_way =
      std::any_of(slots_.begin(), slots_.end(),
                  [](const Slot& slot) { return !slot.pieces.empty(); });
  if (!under_way) return;
  const absl::StatusOr<DeviceScope> scope = context_->Enter();
  const WaitForStream wait(context_->copies());
}

absl::Status TensorUpload::Write(uint64_t first, absl::Span<const char> bytes) {
  if (first > bytes_ || bytes.size() > bytes_ - first) {
    return absl::InvalidArgumentError(absl::StrCat(
        "tensor \"", absl::Utf8SafeCHexEscape(name_), "\": bytes ", first,
        " to ", first + bytes.size(), ", expected at most its ", bytes_));
  }
  CKPTDB_ASSIGN_OR_RETURN(const DeviceScope scope, context_->Enter());
  const uint64_t most = context_->limits().chunk_bytes;
  for (uint64_t at = 0; at < bytes.size(); at += most) {
    CKPTDB_RETURN_IF_ERROR(WriteChunk(first + at, bytes.subspan(at, most)));
  }
  return absl::OkStatus();
}

absl::Status TensorUpload::Finish() {
  CKPTDB_ASSIGN_OR_RETURN(const DeviceScope scope, context_->Enter());
  for (Slot& slot : slots_) CKPTDB_RETURN_IF_ERROR(FinishSlot(&slot));
  return absl::OkStatus();
}

// A small tensor uses a single slot.
absl::Status TensorUpload::AddSlot() {
  const uint64_t chunk = std::min(context_->limits().chunk_bytes, bytes_);
  const uint64_t whole =
      (chunk + kLaneBytes - 1) / kLaneBytes * kLaneBytes +
      MostPieces(chunk) * (sizeof(TensorPiece) + sizeof(uint64_t));
  CKPTDB_ASSIGN_OR_RETURN(CudaEvent done, CudaEvent::Create());
  CKPTDB_ASSIGN_OR_RETURN(PinnedPool::Loan host,
                          context_->pinned().Take(whole));
  CKPTDB_ASSIGN_OR_RETURN(DevicePool::Loan device,
                          context_->windows().Take(whole));
  slots_.push_back(
      {std::move(done), std::move(host), std::move(device), {}, {}});
  return absl::OkStatus();
}

absl::Status TensorUpload::WriteChunk(uint64_t first,
                                      absl::Span<const char> bytes) {
  const auto ring = static_cast<uint64_t>(context_->limits().ring_slots);
  if (slots_.size() < ring && chunks_ == slots_.size()) {
    CKPTDB_RETURN_IF_ERROR(AddSlot());
  }
  Slot& slot = slots_[chunks_++ % slots_.size()];
  CKPTDB_RETURN_IF_ERROR(FinishSlot(&slot));
  AppendPieces(place_, first, bytes.size(), 0, &slot.pieces);
  slot.expected.resize(slot.pieces.size());
  CKPTDB_RETURN_IF_ERROR(
      ParallelFor(kCopyThreads, slot.pieces.size(), [&](int, uint64_t p) {
        const TensorPiece& piece = slot.pieces[p];
        const char* const from = bytes.data() + piece.packed;
        std::memcpy(slot.host.get() + piece.packed, from, piece.bytes);
        slot.expected[p] = DigestOf(piece, from);
        return absl::OkStatus();
      }));
  return QueueChunk(slot, bytes.size());
}

absl::Status TensorUpload::QueueChunk(const Slot& slot, uint64_t bytes) const {
  const cudaStream_t copies = context_->copies();
  const uint64_t list_at = (bytes + kLaneBytes - 1) / kLaneBytes * kLaneBytes;
  const uint64_t list_bytes = slot.pieces.size() * sizeof(TensorPiece);
  const uint64_t digests_at = list_at + list_bytes;
  char* const host = slot.host.get();
  char* const device = slot.device.get();
  std::memcpy(host + list_at, slot.pieces.data(), list_bytes);
  CKPTDB_RETURN_IF_ERROR(CopyToDevice(device, host, digests_at, copies));
  CKPTDB_RETURN_IF_ERROR(CudaStatus(
      LaunchUnpack(reinterpret_cast<const TensorPiece*>(device + list_at),
                   slot.pieces.size(), device,
                   reinterpret_cast<uint64_t*>(device + digests_at), copies),
      absl::StrCat("unpacking ", bytes, " bytes of tensor \"",
                   absl::Utf8SafeCHexEscape(name_), "\"")));
  CKPTDB_RETURN_IF_ERROR(CopyToHost(host + digests_at, device + digests_at,
                                    slot.pieces.size() * sizeof(uint64_t),
                                    copies));
  return slot.done.Record(copies);
}

// Waits for the slot's chunk, if one is in flight, and checks it.
absl::Status TensorUpload::FinishSlot(Slot* slot) const {
  if (slot->pieces.empty()) return absl::OkStatus();
  CKPTDB_RETURN_IF_ERROR(slot->done.Synchronize());
  const TensorPiece& last = slot->pieces.back();
  const uint64_t list_at = last.packed + LanesOf(last) * kLaneBytes;
  const char* const digests =
      slot->host.get() + list_at + slot->pieces.size() * sizeof(TensorPiece);
  const std::vector<TensorPiece> pieces = std::exchange(slot->pieces, {});
  const std::vector<uint64_t> expected = std::exchange(slot->expected, {});
  for (size_t p = 0; p < pieces.size(); ++p) {
    uint64_t digest = 0;
    std::memcpy(&digest, digests + p * sizeof(digest), sizeof(digest));
    if (digest == expected[p]) continue;
    return absl::DataLossError(
        absl::StrCat("tensor \"", absl::Utf8SafeCHexEscape(name_), "\": bytes ",
                     pieces[p].first, " to ", pieces[p].first + pieces[p].bytes,
                     " changed on their way to the device: digest ",
                     absl::Hex(digest), ", expected ", absl::Hex(expected[p])));
  }
  return absl::OkStatus();
}

}  // namespace ckptdb::internal
