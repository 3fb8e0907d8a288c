// SPDX-License-Identifier: Apache-2.0
#include "db/read/row_batcher.h"

#include <numeric>
#include <utility>

#include "db/base/call_guard.h"
#include "schema/status.h"

namespace ckptdb::internal {
namespace {

// Below this number of rows, copying costs less than a call.
constexpr size_t kShort = 16;
constexpr size_t kShortBytes = size_t{2} << 10;
// Short stretches are passed on as one batch once they reach this many rows.
constexpr size_t kGathered = 256;
constexpr size_t kErasedGathered = 4096;

}  // namespace

RowBatcher::RowBatcher(int worker, std::vector<uint64_t> row_bytes,
                       RowSink* sink, LiveTable* live)
    : worker_(worker),
      row_bytes_(std::move(row_bytes)),
      all_row_bytes_(
          std::accumulate(row_bytes_.begin(), row_bytes_.end(), uint64_t{0})),
      sink_(sink),
      live_(live),
      values_(row_bytes_.size()),
      pointers_(row_bytes_.size()) {}

absl::Status RowBatcher::Rows(const RowSink::Batch& batch) {
  const size_t count = batch.ids.size();
  // A longer stretch is passed on directly from its page, possibly before
  // gathered rows: each id appears once, so the order does not matter.
  if (count > kShort || count * all_row_bytes_ > kShortBytes) {
    return Consume(batch);
  }
  ids_.insert(ids_.end(), batch.ids.begin(), batch.ids.end());
  for (size_t i = 0; i < values_.size(); ++i) {
    values_[i].append(batch.slots[i], batch.ids.size() * row_bytes_[i]);
  }
  return ids_.size() < kGathered ? absl::OkStatus() : FlushRows();
}

// Only a ChangeReader passes a LiveTable, which receives erased ids.
absl::Status RowBatcher::Erased(absl::Span<const int64_t> ids) {
  if (live_ == nullptr) return absl::OkStatus();
  erased_.insert(erased_.end(), ids.begin(), ids.end());
  return erased_.size() < kErasedGathered ? absl::OkStatus() : FlushErased();
}

absl::Status RowBatcher::Consume(const RowSink::Batch& batch) {
  return CallGuarded("RowSink::Consume",
                     [&] { return sink_->Consume(worker_, batch); });
}

absl::Status RowBatcher::FlushRows() {
  if (ids_.empty()) return absl::OkStatus();
  for (size_t i = 0; i < values_.size(); ++i) pointers_[i] = values_[i].data();
  CKPTDB_RETURN_IF_ERROR(Consume({ids_, pointers_}));
  ids_.clear();
  for (std::string& values : values_) values.clear();
  return absl::OkStatus();
}

absl::Status RowBatcher::FlushErased() {
  if (erased_.empty()) return absl::OkStatus();
  CKPTDB_RETURN_IF_ERROR(CallGuarded(
      "LiveTable::Erase", [&] { return live_->Erase(worker_, erased_); }));
  erased_.clear();
  return absl::OkStatus();
}

absl::Status RowBatcher::Flush() {
  CKPTDB_RETURN_IF_ERROR(FlushRows());
  return FlushErased();
}

}  // namespace ckptdb::internal
