// SPDX-License-Identifier: Apache-2.0
#include "cuda/hash_table.h"

#include <cuda_runtime_api.h>

#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "cuda/runtime/device_context.h"
#include "cuda/tables/hash_rows.h"
#include "cuda/tables/hash_writer.h"
#include "cuda/tables/score_tracker.h"
#include "manager/internal/tensor_device.h"
#include "schema/status.h"

namespace ckptdb {
namespace {

constexpr uint64_t kMaxBatchRows = uint64_t{1} << 24;

absl::Status CheckHashTable(CudaDevice* device, HashTable::Source* source,
                            const HashTable::Options& options) {
  if (device == nullptr || source == nullptr) {
    return absl::InvalidArgumentError(
        absl::StrCat("the ", device == nullptr ? "device" : "source",
                     " of a HashTable is null"));
  }
  if (device->context() == nullptr) {
    return absl::FailedPreconditionError(
        "a HashTable needs a CUDA device, and none was found; use a MapTable "
        "or ColumnTable in host memory");
  }
  if (options.batch_rows >= 1 && options.batch_rows <= kMaxBatchRows) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("HashTable::Options::batch_rows is ", options.batch_rows,
                   ", expected 1 to ", kMaxBatchRows));
}

}  // namespace

struct HashTable::Parts {
  explicit Parts(Erasures erasures) : tracker(&layout, erasures) {}

  internal::HashLayout layout;
  internal::ScoreTracker tracker;
  std::unique_ptr<internal::HashWriter> live;
};

HashTable::HashTable(std::vector<Slot> slots, TableOptions options,
                     std::unique_ptr<Parts> parts)
    : AdaptedTable(absl::OkStatus(), std::move(slots), std::move(options)),
      parts_(std::move(parts)) {}

HashTable::~HashTable() = default;

absl::StatusOr<std::unique_ptr<HashTable>> HashTable::Make(
    CudaDevice* device, Source* source, std::vector<Slot> slots) {
  return Make(device, source, std::move(slots), Options());
}

absl::StatusOr<std::unique_ptr<HashTable>> HashTable::Make(
    CudaDevice* device, Source* source, std::vector<Slot> slots,
    Options options) {
  CKPTDB_RETURN_IF_ERROR(CheckHashTable(device, source, options));
  auto parts = std::make_unique<Parts>(options.erasures);
  internal::HashLayout& layout = parts->layout;
  layout.context = device->context();
  layout.source = source;
  layout.stream = static_cast<cudaStream_t>(options.stream);
  layout.batch_rows = options.batch_rows;
  for (const Slot& slot : slots) layout.value_bytes += slot.row_bytes();
  layout.slots = std::move(slots);
  layout.has_scores = !options.score_slot.empty();
  if (layout.has_scores) {
    layout.slots.push_back({options.score_slot, DType::kU64, 1});
  }
  std::vector<Slot> all = layout.slots;
  std::unique_ptr<HashTable> table(new HashTable(
      std::move(all), std::move(options.table), std::move(parts)));
  CKPTDB_RETURN_IF_ERROR(table->status());
  return table;
}

ChangeTracker* HashTable::tracker() { return &parts_->tracker; }

absl::StatusOr<std::unique_ptr<TableState::Captured>> HashTable::Capture(
    const absl::Span<const int64_t>* ids) const {
  return internal::HashRows::Copy(&parts_->layout, ids,
                                  internal::RowForm::kEncoded);
}

absl::StatusOr<std::unique_ptr<RowSource>> HashTable::AllRows() const {
  return internal::HashRows::Copy(&parts_->layout, nullptr,
                                  internal::RowForm::kRaw);
}

absl::StatusOr<std::unique_ptr<RowSource>> HashTable::RowsOf(
    absl::Span<const int64_t> ids) const {
  return internal::HashRows::Copy(&parts_->layout, &ids,
                                  internal::RowForm::kRaw);
}

LiveTable* HashTable::Live(absl::Span<const std::string> slots) {
  std::optional<std::vector<size_t>> chosen = FindSlots(slots);
  if (!chosen.has_value()) return nullptr;
  parts_->live = std::make_unique<internal::HashWriter>(
      &parts_->layout, &parts_->tracker, *std::move(chosen));
  return parts_->live.get();
}

}  // namespace ckptdb
