// SPDX-License-Identifier: Apache-2.0
#include "cuda/tables/hash_writer.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "cuda/kernels/row_kernels.h"
#include "cuda/runtime/status.h"
#include "schema/status.h"

namespace ckptdb::internal {

absl::Status HashWriter::Begin() {
  if (upload_ != nullptr) return absl::OkStatus();
  tracker_->Restart();
  CKPTDB_ASSIGN_OR_RETURN(window_, HashWindow::Make(&layout_));
  const uint64_t rows = layout_.batch_rows;
  uint64_t bytes = AlignLane(rows * sizeof(int64_t));
  for (const size_t slot : slots_) {
    bytes += AlignLane(rows * layout_.slots[slot].row_bytes());
  }
  CKPTDB_ASSIGN_OR_RETURN(upload_,
                          Upload::Make(layout_.context, bytes, slots_.size()));
  return absl::OkStatus();
}

bool HashWriter::HasAllSlots() const {
  return slots_.size() == layout_.slots.size();
}

absl::Status HashWriter::Clear() {
  CKPTDB_ASSIGN_OR_RETURN(const DeviceScope scope, layout_.context->Enter());
  const MutexLock lock(&mutex_);
  CKPTDB_RETURN_IF_ERROR(Begin());
  CKPTDB_RETURN_IF_ERROR(layout_.source->Clear(layout_.context->side()));
  return layout_.context->Synchronize();
}

absl::Status HashWriter::Consume(int /*worker*/, const RowSink::Batch& batch) {
  CKPTDB_ASSIGN_OR_RETURN(const DeviceScope scope, layout_.context->Enter());
  const MutexLock lock(&mutex_);
  CKPTDB_RETURN_IF_ERROR(Begin());
  // After an error, waits for the work that is queued.
  WaitForStream wait(layout_.context->side());
  const uint64_t most = layout_.batch_rows;
  for (uint64_t first = 0; first < batch.ids.size(); first += most) {
    CKPTDB_RETURN_IF_ERROR(Write(
        batch, first, std::min<uint64_t>(most, batch.ids.size() - first)));
  }
  wait.Dismiss();
  return absl::OkStatus();
}

// Assembles the rows in the window. Slots that the restore does not contain
// keep their values in the table, or are zero for new rows.
absl::Status HashWriter::Write(const RowSink::Batch& batch, uint64_t first,
                               uint64_t count) {
  upload_->Restart();
  char* const keys =
      upload_->Append(batch.ids.data() + first, count * sizeof(int64_t));
  const TableRows window = window_->AsTable(count);
  std::vector<ScatterRowsOfSlot> scatters;
  bool has_scores = false;
  for (size_t s = 0; s < slots_.size(); ++s) {
    const SlotView& slot = window.values[slots_[s]];
    ScatterRowsOfSlot scatter = {{}, slot, nullptr, 0, count, nullptr};
    scatter.batch = upload_->AppendRows(batch.slots[s] + first * slot.row_bytes,
                                        count, slot.row_bytes, &scatter.digest);
    scatters.push_back(scatter);
    has_scores = has_scores || slots_[s] == layout_.value_slots();
  }
  HashTable::Source::Batch rows = window_->batch();
  rows.keys = reinterpret_cast<int64_t*>(keys);
  CKPTDB_RETURN_IF_ERROR(upload_->Send());
  if (!HasAllSlots()) {
    CKPTDB_RETURN_IF_ERROR(
        CudaStatus(cudaMemsetAsync(rows.values, 0, count * layout_.value_bytes,
                                   layout_.context->side()),
                   "cudaMemsetAsync of rows"));
    CKPTDB_RETURN_IF_ERROR(layout_.source->Find(count, rows, window_->found()));
  }
  for (const ScatterRowsOfSlot& scatter : scatters) {
    CKPTDB_RETURN_IF_ERROR(
        CudaStatus(LaunchScatter(scatter, layout_.context->side()),
                   "the kernel that puts rows together"));
  }
  if (!has_scores) rows.scores = nullptr;
  CKPTDB_RETURN_IF_ERROR(layout_.source->Insert(count, rows));
  CKPTDB_ASSIGN_OR_RETURN(const bool same, upload_->Finish());
  if (same) return absl::OkStatus();
  return absl::DataLossError(
      absl::StrCat("the copy of ", count, " rows to the device, from id ",
                   batch.ids[first], " on, changed their bytes"));
}

absl::Status HashWriter::Erase(int /*worker*/, absl::Span<const int64_t> ids) {
  CKPTDB_ASSIGN_OR_RETURN(const DeviceScope scope, layout_.context->Enter());
  const MutexLock lock(&mutex_);
  CKPTDB_RETURN_IF_ERROR(Begin());
  WaitForStream wait(layout_.context->side());
  for (uint64_t first = 0; first < ids.size(); first += layout_.batch_rows) {
    const uint64_t count =
        std::min<uint64_t>(layout_.batch_rows, ids.size() - first);
    upload_->Restart();
    const char* const keys =
        upload_->Append(ids.data() + first, count * sizeof(int64_t));
    CKPTDB_RETURN_IF_ERROR(upload_->Send());
    CKPTDB_RETURN_IF_ERROR(
        layout_.source->Erase(count, reinterpret_cast<const int64_t*>(keys),
                              layout_.context->side()));
    CKPTDB_RETURN_IF_ERROR(upload_->Finish().status());
  }
  wait.Dismiss();
  return absl::OkStatus();
}

}  // namespace ckptdb::internal
