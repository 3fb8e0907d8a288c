// SPDX-License-Identifier: Apache-2.0
#include "cuda/tables/upload.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "cuda/runtime/buffer.h"
#include "cuda/runtime/status.h"
#include "schema/status.h"

namespace ckptdb::internal {
namespace {

// Returns the digest of packed rows in host memory, as ScatterRowsOfSlot
// computes it.
uint64_t DigestOfRows(const char* rows, uint64_t count, uint32_t row_bytes) {
  const uint32_t lanes = LanesOf(row_bytes);
  uint64_t digest = 0;
  uint64_t place = 0;
  for (uint64_t row = 0; row < count; ++row) {
    for (uint32_t lane = 0; lane < lanes; ++lane, ++place) {
      Lane value;
      std::memcpy(&value, rows + row * row_bytes + uint64_t{lane} * kLaneBytes,
                  LaneBytesOf(row_bytes, lane));
      digest += MixLane(place, value);
    }
  }
  return digest;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Upload>> Upload::Make(DeviceContext* context,
                                                     uint64_t bytes,
                                                     size_t slots) {
  const uint64_t all = bytes + AlignLane((slots + 1) * sizeof(uint64_t));
  CKPTDB_ASSIGN_OR_RETURN(PinnedPool::Loan host, context->pinned().Take(all));
  CKPTDB_ASSIGN_OR_RETURN(DevicePool::Loan device,
                          context->windows().Take(all));
  CKPTDB_ASSIGN_OR_RETURN(CudaEvent done, CudaEvent::Create());
  return std::unique_ptr<Upload>(new Upload(
      context, bytes, std::move(host), std::move(device), std::move(done)));
}

Upload::Upload(DeviceContext* context, uint64_t bytes, PinnedPool::Loan host,
               DevicePool::Loan device, CudaEvent done)
    : context_(context),
      bytes_(bytes),
      host_(std::move(host)),
      device_(std::move(device)),
      done_(std::move(done)) {}

void Upload::Restart() {
  used_ = 0;
  digests_.clear();
}

char* Upload::Append(const void* bytes, uint64_t count) {
  const uint64_t at = used_;
  if (count > 0) std::memcpy(host_.get() + at, bytes, count);
  used_ = AlignLane(at + count);
  return device_.get() + at;
}

SlotView Upload::AppendRows(const char* rows, uint64_t count,
                            uint32_t row_bytes, uint64_t** digest) {
  *digest =
      reinterpret_cast<uint64_t*>(device_.get() + bytes_) + digests_.size();
  digests_.push_back(DigestOfRows(rows, count, row_bytes));
  return {Append(rows, count * row_bytes), row_bytes, row_bytes};
}

absl::Status Upload::Send() {
  CKPTDB_RETURN_IF_ERROR(
      CopyToDevice(device_.get(), host_.get(), used_, context_->side()));
  if (digests_.empty()) return absl::OkStatus();
  return CudaStatus(
      cudaMemsetAsync(device_.get() + bytes_, 0,
                      digests_.size() * sizeof(uint64_t), context_->side()),
      "cudaMemsetAsync of digests");
}

absl::StatusOr<bool> Upload::Finish() {
  const uint64_t bytes = digests_.size() * sizeof(uint64_t);
  if (bytes > 0) {
    CKPTDB_RETURN_IF_ERROR(CopyToHost(
        host_.get() + bytes_, device_.get() + bytes_, bytes, context_->side()));
  }
  CKPTDB_RETURN_IF_ERROR(done_.Record(context_->side()));
  CKPTDB_RETURN_IF_ERROR(done_.Synchronize());
  return bytes == 0 ||
         std::memcmp(host_.get() + bytes_, digests_.data(), bytes) == 0;
}

}  // namespace ckptdb::internal
