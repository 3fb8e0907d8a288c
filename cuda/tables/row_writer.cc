// SPDX-License-Identifier: Apache-2.0
#include "cuda/tables/row_writer.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "cuda/kernels/row_kernels.h"
#include "cuda/rows/row_lanes.h"
#include "cuda/runtime/status.h"
#include "cuda/runtime/stream.h"
#include "cuda/tables/upload.h"
#include "schema/status.h"

namespace ckptdb::internal {
namespace {

// The approximate size of one upload; batches are smaller.
constexpr uint64_t kUploadBytes = uint64_t{2} << 20;

}  // namespace

RowWriter::RowWriter(DeviceContext* context, const TableRows* table,
                     DeviceMarks* marks, std::vector<size_t> slots)
    : context_(context),
      table_(*table),
      marks_(marks),
      slots_(std::move(slots)),
      index_(table) {
  for (size_t slot = 0; slot < table_.values.size(); ++slot) {
    if (std::find(slots_.begin(), slots_.end(), slot) == slots_.end()) {
      other_slots_.push_back(slot);
    }
  }
}

RowWriter::~RowWriter() { context_->Synchronize().IgnoreError(); }

// The trainer's queued work runs before the first row is written.
absl::Status RowWriter::Begin() {
  if (begun_) return absl::OkStatus();
  CKPTDB_RETURN_IF_ERROR(marks_->AwaitTrainer());
  if (table_.ids != nullptr) {
    std::vector<int64_t> ids;
    CKPTDB_RETURN_IF_ERROR(marks_->ReadIds(&ids));
    CKPTDB_RETURN_IF_ERROR(index_.Load(ids));
  }
  begun_ = true;
  return absl::OkStatus();
}

absl::Status RowWriter::Clear() {
  CKPTDB_ASSIGN_OR_RETURN(const DeviceScope scope, context_->Enter());
  const MutexLock lock(&mutex_);
  CKPTDB_RETURN_IF_ERROR(marks_->AwaitTrainer());
  CKPTDB_RETURN_IF_ERROR(FreeAll());
  CKPTDB_RETURN_IF_ERROR(
      CudaStatus(cudaStreamSynchronize(context_->side()),
                 "cudaStreamSynchronize for a table that was cleared"));
  index_.Clear();
  begun_ = true;
  return absl::OkStatus();
}

absl::Status RowWriter::FreeAll() {
  if (table_.ids != nullptr) {
    return CudaStatus(LaunchFreeRows({table_.ids, table_.rows, table_.free_id},
                                     context_->side()),
                      "the kernel that clears a table");
  }
  for (const size_t slot : slots_) {
    CKPTDB_RETURN_IF_ERROR(CudaStatus(
        LaunchScatter(
            {{}, table_.values[slot], nullptr, 0, table_.rows, nullptr},
            context_->side()),
        "the kernel that clears a table"));
  }
  return absl::OkStatus();
}

absl::Status RowWriter::Assign(absl::Span<const int64_t> ids,
                               Assigned* assigned) {
  const MutexLock lock(&mutex_);
  CKPTDB_RETURN_IF_ERROR(Begin());
  for (const int64_t id : ids) {
    CKPTDB_ASSIGN_OR_RETURN(const RowIndex::Found found, index_.Insert(id));
    assigned->rows.push_back(found.row);
    if (found.fresh) assigned->fresh.push_back(found.row);
  }
  return absl::OkStatus();
}

// An upload holds, for each row, its number (twice if it is fresh), its id and
// its values, and the padding between the parts.
uint64_t RowWriter::RowsPerUpload() const {
  uint64_t bytes = 2 * sizeof(uint32_t) + sizeof(int64_t);
  for (const size_t slot : slots_) bytes += table_.values[slot].row_bytes;
  return std::max<uint64_t>(kUploadBytes / bytes, 1);
}

absl::StatusOr<std::unique_ptr<Upload>> RowWriter::TakeUpload() {
  {
    const MutexLock lock(&mutex_);
    if (!idle_.empty()) {
      std::unique_ptr<Upload> upload = std::move(idle_.back());
      idle_.pop_back();
      return upload;
    }
  }
  const uint64_t rows = RowsPerUpload();
  uint64_t bytes = 2 * AlignLane(rows * sizeof(uint32_t)) +
                   AlignLane(rows * sizeof(int64_t));
  for (const size_t slot : slots_) {
    bytes += AlignLane(rows * table_.values[slot].row_bytes);
  }
  return Upload::Make(context_, bytes, slots_.size());
}

void RowWriter::ReturnUpload(std::unique_ptr<Upload> upload) {
  const MutexLock lock(&mutex_);
  idle_.push_back(std::move(upload));
}

absl::Status RowWriter::Consume(int /*worker*/, const RowSink::Batch& batch) {
  CKPTDB_ASSIGN_OR_RETURN(const DeviceScope scope, context_->Enter());
  CKPTDB_ASSIGN_OR_RETURN(std::unique_ptr<Upload> upload, TakeUpload());
  // After an error, waits for the queued work before its memory is freed.
  WaitForStream wait(context_->side());
  const uint64_t most = RowsPerUpload();
  for (uint64_t first = 0; first < batch.ids.size(); first += most) {
    CKPTDB_RETURN_IF_ERROR(
        Write(batch, first, std::min<uint64_t>(most, batch.ids.size() - first),
              upload.get()));
  }
  wait.Dismiss();
  ReturnUpload(std::move(upload));
  return absl::OkStatus();
}

absl::Status RowWriter::Write(const RowSink::Batch& batch, uint64_t first,
                              uint64_t count, Upload* upload) {
  const absl::Span<const int64_t> ids = batch.ids.subspan(first, count);
  Assigned assigned;
  CKPTDB_RETURN_IF_ERROR(Assign(ids, &assigned));
  upload->Restart();
  const auto* const rows = reinterpret_cast<const uint32_t*>(
      upload->Append(assigned.rows.data(), count * sizeof(uint32_t)));
  const auto* const fresh = reinterpret_cast<const uint32_t*>(upload->Append(
      assigned.fresh.data(), assigned.fresh.size() * sizeof(uint32_t)));
  char* const sent_ids = upload->Append(ids.data(), count * sizeof(int64_t));
  std::vector<ScatterRowsOfSlot> scatters;
  for (size_t s = 0; s < slots_.size(); ++s) {
    const SlotView& slot = table_.values[slots_[s]];
    ScatterRowsOfSlot scatter = {{}, slot, rows, 0, count, nullptr};
    scatter.batch = upload->AppendRows(batch.slots[s] + first * slot.row_bytes,
                                       count, slot.row_bytes, &scatter.digest);
    scatters.push_back(scatter);
  }
  if (table_.ids != nullptr) {
    constexpr uint32_t kIdBytes = sizeof(int64_t);
    const SlotView to = {reinterpret_cast<char*>(table_.ids), kIdBytes,
                         kIdBytes};
    scatters.push_back({{sent_ids, kIdBytes, kIdBytes}, to, rows, 0, count});
  }
  for (const size_t slot : other_slots_) {
    if (assigned.fresh.empty()) continue;
    scatters.push_back(
        {{}, table_.values[slot], fresh, 0, assigned.fresh.size()});
  }
  CKPTDB_RETURN_IF_ERROR(upload->Send());
  for (const ScatterRowsOfSlot& scatter : scatters) {
    CKPTDB_RETURN_IF_ERROR(CudaStatus(LaunchScatter(scatter, context_->side()),
                                      "the kernel that writes rows"));
  }
  CKPTDB_ASSIGN_OR_RETURN(const bool same, upload->Finish());
  if (same) return absl::OkStatus();
  return absl::DataLossError(
      absl::StrCat("the copy of ", count, " rows to the device, from id ",
                   ids.front(), " on, changed their bytes"));
}

absl::Status RowWriter::Erase(int /*worker*/, absl::Span<const int64_t> ids) {
  CKPTDB_ASSIGN_OR_RETURN(const DeviceScope scope, context_->Enter());
  std::vector<uint32_t> rows;
  {
    const MutexLock lock(&mutex_);
    CKPTDB_RETURN_IF_ERROR(Begin());
    for (const int64_t id : ids) {
      const std::optional<uint32_t> row = index_.Erase(id);
      if (row.has_value()) rows.push_back(*row);
    }
  }
  CKPTDB_ASSIGN_OR_RETURN(std::unique_ptr<Upload> upload, TakeUpload());
  WaitForStream wait(context_->side());
  const uint64_t most = RowsPerUpload();
  for (uint64_t first = 0; first < rows.size(); first += most) {
    CKPTDB_RETURN_IF_ERROR(
        Free(absl::MakeConstSpan(rows).subspan(first, most), upload.get()));
  }
  wait.Dismiss();
  ReturnUpload(std::move(upload));
  const MutexLock lock(&mutex_);
  index_.Release(rows);
  return absl::OkStatus();
}

absl::Status RowWriter::Free(absl::Span<const uint32_t> rows, Upload* upload) {
  upload->Restart();
  const auto* const sent = reinterpret_cast<const uint32_t*>(
      upload->Append(rows.data(), rows.size() * sizeof(uint32_t)));
  std::vector<ScatterRowsOfSlot> scatters;
  if (table_.ids != nullptr) {
    constexpr uint32_t kIdBytes = sizeof(int64_t);
    const std::vector<int64_t> free(rows.size(), table_.free_id);
    char* const ids =
        upload->Append(free.data(), free.size() * sizeof(int64_t));
    scatters.push_back(
        {{ids, kIdBytes, kIdBytes},
         {reinterpret_cast<char*>(table_.ids), kIdBytes, kIdBytes},
         sent,
         0,
         rows.size()});
  } else {
    for (const size_t slot : slots_) {
      scatters.push_back({{}, table_.values[slot], sent, 0, rows.size()});
    }
  }
  CKPTDB_RETURN_IF_ERROR(upload->Send());
  for (const ScatterRowsOfSlot& scatter : scatters) {
    CKPTDB_RETURN_IF_ERROR(CudaStatus(LaunchScatter(scatter, context_->side()),
                                      "the kernel that erases rows"));
  }
  return upload->Finish().status();
}

}  // namespace ckptdb::internal
