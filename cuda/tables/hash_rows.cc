// SPDX-License-Identifier: Apache-2.0
#include "cuda/tables/hash_rows.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "cuda/rows/row_lanes.h"
#include "cuda/runtime/buffer.h"
#include "cuda/runtime/status.h"
#include "cuda/tables/upload.h"
#include "schema/status.h"

namespace ckptdb::internal {
namespace {

constexpr uint64_t kNumberBytes = sizeof(uint64_t);

}  // namespace

// Lays out keys, scores, found flags, the count, and last the values.
absl::StatusOr<std::unique_ptr<HashWindow>> HashWindow::Make(
    const HashLayout* layout) {
  const uint64_t rows = layout->batch_rows;
  CKPTDB_ASSIGN_OR_RETURN(DevicePool::Loan device,
                          layout->context->windows().Take(
                              3 * AlignLane(rows * kNumberBytes) + kLaneBytes +
                              AlignLane(rows * layout->value_bytes)));
  CKPTDB_ASSIGN_OR_RETURN(PinnedPool::Loan host,
                          layout->context->pinned().Take(std::max<uint64_t>(
                              rows * kNumberBytes, kLaneBytes)));
  std::unique_ptr<HashWindow> window(
      new HashWindow(layout, std::move(device), std::move(host)));
  CKPTDB_RETURN_IF_ERROR(AwaitStream(layout->context->side(), layout->stream));
  return window;
}

HashWindow::HashWindow(const HashLayout* layout, DevicePool::Loan device,
                       PinnedPool::Loan host)
    : layout_(*layout), device_(std::move(device)), host_(std::move(host)) {}

HashWindow::~HashWindow() {
  const absl::StatusOr<DeviceScope> scope = layout_.context->Enter();
  const WaitForStream wait(layout_.context->side());
}

HashTable::Source::Batch HashWindow::batch() const {
  const uint64_t numbers = AlignLane(rows() * kNumberBytes);
  HashTable::Source::Batch batch;
  char* const at = device_.get();
  batch.keys = reinterpret_cast<int64_t*>(at);
  batch.scores = reinterpret_cast<uint64_t*>(at + numbers);
  batch.count = reinterpret_cast<uint64_t*>(at + 3 * numbers);
  batch.values = at + 3 * numbers + kLaneBytes;
  batch.stream = layout_.context->side();
  return batch;
}

uint8_t* HashWindow::found() const {
  return reinterpret_cast<uint8_t*>(device_.get() +
                                    2 * AlignLane(rows() * kNumberBytes));
}

// Copies bytes of the window to the host, and waits for the copy.
absl::Status HashWindow::Read(const void* from, uint64_t bytes) {
  CKPTDB_RETURN_IF_ERROR(CopyToHost(host_.get(), static_cast<const char*>(from),
                                    bytes, layout_.context->side()));
  return CudaStatus(cudaStreamSynchronize(layout_.context->side()),
                    "cudaStreamSynchronize for rows of a hash table");
}

absl::StatusOr<std::vector<int64_t>> HashWindow::Export(
    const HashTable::Source::ExportSpec& spec, bool with_values) {
  HashTable::Source::Batch to = batch();
  if (!with_values) to.values = nullptr;
  CKPTDB_RETURN_IF_ERROR(CudaStatus(
      cudaMemsetAsync(to.count, 0, kNumberBytes, layout_.context->side()),
      "cudaMemsetAsync of a count"));
  CKPTDB_RETURN_IF_ERROR(layout_.source->Export(spec, to));
  CKPTDB_RETURN_IF_ERROR(Read(to.count, kNumberBytes));
  uint64_t count = 0;
  std::memcpy(&count, host_.get(), sizeof(count));
  if (count > spec.places) {
    return absl::InternalError(absl::StrCat(
        "HashTable::Source::Export returned ", count, " rows for ", spec.places,
        " places; expected at most one row per place"));
  }
  std::vector<int64_t> keys(count);
  if (count == 0) return keys;
  CKPTDB_RETURN_IF_ERROR(Read(to.keys, count * kNumberBytes));
  std::memcpy(keys.data(), host_.get(), count * kNumberBytes);
  return keys;
}

absl::StatusOr<std::vector<uint64_t>> HashWindow::ReadScores(uint64_t rows) {
  std::vector<uint64_t> scores(rows);
  if (rows == 0) return scores;
  CKPTDB_RETURN_IF_ERROR(Read(batch().scores, rows * kNumberBytes));
  std::memcpy(scores.data(), host_.get(), rows * kNumberBytes);
  return scores;
}

absl::Status HashWindow::Find(absl::Span<const int64_t> keys) {
  const HashTable::Source::Batch of = batch();
  std::memcpy(host_.get(), keys.data(), keys.size() * kNumberBytes);
  CKPTDB_RETURN_IF_ERROR(CopyToDevice(reinterpret_cast<char*>(of.keys),
                                      host_.get(), keys.size() * kNumberBytes,
                                      layout_.context->side()));
  CKPTDB_RETURN_IF_ERROR(layout_.source->Find(keys.size(), of, found()));
  CKPTDB_RETURN_IF_ERROR(Read(found(), keys.size()));
  const void* const missing = std::memchr(host_.get(), 0, keys.size());
  if (missing == nullptr) return absl::OkStatus();
  const auto at = static_cast<const char*>(missing) - host_.get();
  return absl::InternalError(absl::StrCat(
      "row ", keys[static_cast<size_t>(at)],
      " is among the changed rows, but the hash table does not contain it"));
}

TableRows HashWindow::AsTable(uint64_t rows) const {
  TableRows table;
  table.rows = rows;
  table.slots = layout_.slots;
  table.stream = layout_.context->side();
  const HashTable::Source::Batch at = batch();
  uint64_t offset = 0;
  for (size_t s = 0; s < layout_.value_slots(); ++s) {
    const auto row_bytes = static_cast<uint32_t>(layout_.slots[s].row_bytes());
    table.values.push_back(
        {at.values + offset, layout_.value_bytes, row_bytes});
    offset += row_bytes;
  }
  if (layout_.has_scores) {
    table.values.push_back({reinterpret_cast<char*>(at.scores), kNumberBytes,
                            static_cast<uint32_t>(kNumberBytes)});
  }
  return table;
}

// A slot is encoded in all batches or in none: if one batch cannot encode it,
// all are copied again.
absl::StatusOr<std::unique_ptr<HashRows>> HashRows::Copy(
    const HashLayout* layout, const absl::Span<const int64_t>* ids,
    RowForm form) {
  CKPTDB_ASSIGN_OR_RETURN(const DeviceScope scope, layout->context->Enter());
  CKPTDB_ASSIGN_OR_RETURN(const std::unique_ptr<HashWindow> window,
                          HashWindow::Make(layout));
  auto rows = std::make_unique<HashRows>();
  rows->slots_ = layout->slots;
  if (form == RowForm::kRaw) {
    for (Slot& slot : rows->slots_) slot.codec = Codec::kNone;
  }
  do {
    rows->refused_ = false;
    rows->parts_.clear();
    CKPTDB_RETURN_IF_ERROR(rows->CopyBatches(*layout, window.get(), ids));
  } while (rows->refused_);
  return rows;
}

absl::Status HashRows::CopyBatches(const HashLayout& layout, HashWindow* window,
                                   const absl::Span<const int64_t>* ids) {
  const uint64_t all = ids == nullptr ? layout.source->capacity() : ids->size();
  for (uint64_t first = 0; first < all && !refused_; first += window->rows()) {
    const uint64_t some = std::min(window->rows(), all - first);
    if (ids == nullptr) {
      CKPTDB_ASSIGN_OR_RETURN(
          std::vector<int64_t> keys,
          window->Export({first, some, 0}, /*with_values=*/true));
      CKPTDB_RETURN_IF_ERROR(Add(layout, *window, RowIds(std::move(keys))));
    } else {
      const absl::Span<const int64_t> wanted = ids->subspan(first, some);
      CKPTDB_RETURN_IF_ERROR(window->Find(wanted));
      CKPTDB_RETURN_IF_ERROR(Add(layout, *window, RowIds(wanted)));
    }
  }
  return absl::OkStatus();
}

// Returns when the rows are in host memory, so the window can be reused.
absl::Status HashRows::Add(const HashLayout& layout, const HashWindow& window,
                           RowIds ids) {
  if (ids.empty()) return absl::OkStatus();
  auto part = std::make_unique<Part>();
  part->table = window.AsTable(ids.size());
  part->table.slots = slots_;
  const RowList list = {nullptr, ids.size()};
  CKPTDB_ASSIGN_OR_RETURN(part->rows,
                          RowCapture::Begin(layout.context, &part->table, list,
                                            std::move(ids), RowForm::kEncoded));
  CKPTDB_RETURN_IF_ERROR(part->rows->Fetch());
  for (size_t s = 0; s < slots_.size(); ++s) {
    if (slots_[s].codec == Codec::kNone || part->rows->IsEncoded(s)) continue;
    slots_[s].codec = Codec::kNone;
    refused_ = refused_ || SlotForm::Encoded(layout.slots[s]).encoded();
  }
  parts_.push_back(std::move(part));
  return absl::OkStatus();
}

}  // namespace ckptdb::internal
