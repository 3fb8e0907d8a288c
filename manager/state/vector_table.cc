// SPDX-License-Identifier: Apache-2.0
// Rows in the trainer's arrays, by index.
#include <algorithm>
#include <cstring>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "db/base/parallel.h"
#include "manager/state/row_parts.h"
#include "manager/tables.h"
#include "schema/status.h"

namespace ckptdb {
namespace {

using internal::AnyArray;

// The number of rows in a block.
constexpr uint64_t kArrayRows = uint64_t{1} << 20;

// Returns InvalidArgument if the arrays cannot hold these rows. A table without
// rows may have null arrays.
absl::Status CheckArrays(uint64_t rows, const std::vector<AnyArray>& arrays) {
  if (rows > kMaxBitmapRows) {
    return absl::InvalidArgumentError(absl::StrCat(
        "a VectorTable of ", rows, " rows; the limit is ", kMaxBitmapRows));
  }
  for (const AnyArray& array : arrays) {
    if (array.data == nullptr && rows > 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("the array of slot \"", array.slot.name, "\" is null"));
    }
    if (array.stride_bytes < array.slot.row_bytes()) {
      return absl::InvalidArgumentError(
          absl::StrCat("TableOptions::Field::stride_bytes ", array.stride_bytes,
                       " of slot \"", array.slot.name, "\" is below the ",
                       array.slot.row_bytes(), " bytes of its row"));
    }
  }
  return absl::OkStatus();
}

// The arrays belong to the trainer and cannot grow.
absl::Status CheckRow(int64_t id, uint64_t rows) {
  if (static_cast<uint64_t>(id) < rows) return absl::OkStatus();
  return absl::OutOfRangeError(
      absl::StrCat("row ", id, " of the step is beyond the ", rows,
                   " rows of the VectorTable; give it larger arrays"));
}

std::vector<Slot> SlotsOfArrays(const std::vector<AnyArray>& arrays) {
  std::vector<Slot> slots;
  for (const AnyArray& array : arrays) slots.push_back(array.slot);
  return slots;
}

}  // namespace

class VectorTable::Rows : public internal::RowParts {
 public:
  explicit Rows(const VectorTable& table) : table_(table) {}

  // Each block covers one part of the arrays; row ids are indexes.
  absl::Status FindAll() {
    parts_.resize((table_.rows_ + kArrayRows - 1) / kArrayRows);
    return internal::ParallelFor(
        table_.options().threads, parts_.size(), [&](int, uint64_t number) {
          const uint64_t first = number * kArrayRows;
          Part& part = parts_[number];
          part.slots = SlotsFrom(first);
          part.own_ids.resize(std::min(kArrayRows, table_.rows_ - first));
          std::iota(part.own_ids.begin(), part.own_ids.end(),
                    static_cast<int64_t>(first));
          if (table_.holds_) Choose(first, &part);
          part.ids = part.own_ids;
          return absl::OkStatus();
        });
  }

  // Ascending ids yield few blocks.
  absl::Status Find(absl::Span<const int64_t> ids) {
    size_t begin = 0;
    for (size_t i = 0; i < ids.size(); ++i) {
      const auto row = static_cast<uint64_t>(ids[i]);
      if (row >= table_.rows_) {
        return absl::InternalError(
            absl::StrCat("row ", ids[i],
                         " was marked as upserted, but the "
                         "table has ",
                         table_.rows_, " rows"));
      }
      const uint64_t first = row / kArrayRows * kArrayRows;
      if (i == 0 || first != static_cast<uint64_t>(ids[begin]) / kArrayRows *
                                 kArrayRows) {
        begin = i;
        parts_.emplace_back().slots = SlotsFrom(first);
      }
      Part& part = parts_.back();
      part.rows.push_back(static_cast<uint32_t>(row - first));
      part.ids = ids.subspan(begin, i - begin + 1);
    }
    return absl::OkStatus();
  }

 private:
  // Keeps only the rows that this rank holds.
  void Choose(uint64_t first, Part* part) const {
    std::erase_if(part->own_ids,
                  [&](int64_t id) { return !table_.holds_(id); });
    for (const int64_t id : part->own_ids) {
      part->rows.push_back(
          static_cast<uint32_t>(static_cast<uint64_t>(id) - first));
    }
  }

  // Returns the addresses of this row's slots; the following rows are at each
  // array's stride.
  std::vector<RowBlock::SlotValues> SlotsFrom(uint64_t row) const {
    std::vector<RowBlock::SlotValues> slots;
    for (const AnyArray& array : table_.arrays_) {
      slots.push_back(
          {array.data + row * array.stride_bytes, array.stride_bytes});
    }
    return slots;
  }

  const VectorTable& table_;
};

// Writes restored rows into the arrays, on all threads concurrently and without
// a lock, because each id has a separate place.
class VectorTable::LiveRows : public LiveTable {
 public:
  LiveRows(const VectorTable& table, std::vector<size_t> slots)
      : table_(table), slots_(std::move(slots)) {}

  absl::Status Clear() override {
    return internal::ParallelFor(
        table_.options().threads, (table_.rows_ + kArrayRows - 1) / kArrayRows,
        [&](int, uint64_t part) {
          const uint64_t end = std::min((part + 1) * kArrayRows, table_.rows_);
          for (uint64_t row = part * kArrayRows; row < end; ++row) Zero(row);
          return absl::OkStatus();
        });
  }
  absl::Status Consume(int /*worker*/, const RowSink::Batch& batch) override {
    for (size_t r = 0; r < batch.ids.size(); ++r) {
      CKPTDB_RETURN_IF_ERROR(CheckRow(batch.ids[r], table_.rows_));
      const auto row = static_cast<uint64_t>(batch.ids[r]);
      for (size_t s = 0; s < slots_.size(); ++s) {
        const uint64_t bytes = table_.arrays_[slots_[s]].slot.row_bytes();
        std::memcpy(ValueOf(s, row), batch.slots[s] + r * bytes, bytes);
      }
    }
    return absl::OkStatus();
  }
  absl::Status Erase(int /*worker*/, absl::Span<const int64_t> ids) override {
    for (const int64_t id : ids) {
      if (static_cast<uint64_t>(id) < table_.rows_) {
        Zero(static_cast<uint64_t>(id));
      }
    }
    return absl::OkStatus();
  }

 private:
  char* ValueOf(size_t chosen, uint64_t row) const {
    const AnyArray& array = table_.arrays_[slots_[chosen]];
    return array.data + row * array.stride_bytes;
  }
  void Zero(uint64_t row) const {
    for (size_t s = 0; s < slots_.size(); ++s) {
      std::memset(ValueOf(s, row), 0,
                  table_.arrays_[slots_[s]].slot.row_bytes());
    }
  }

  const VectorTable& table_;
  const std::vector<size_t> slots_;
};

VectorTable::VectorTable(uint64_t rows, std::vector<AnyArray> arrays,
                         TableOptions options,
                         std::function<bool(int64_t id)> holds)
    : AdaptedTable(CheckArrays(rows, arrays), SlotsOfArrays(arrays),
                   std::move(options)),
      rows_(rows),
      arrays_(std::move(arrays)),
      holds_(std::move(holds)) {
  // Make fails only for too many rows, which CheckArrays has reported.
  absl::StatusOr<std::unique_ptr<RowBitmap>> marks = RowBitmap::Make(rows);
  if (marks.ok()) marks_ = *std::move(marks);
}

VectorTable::~VectorTable() = default;

// With a function that returns which rows this rank holds, drops marks of other
// rows, so that all ranks can be passed the same ids.
absl::Status VectorTable::MarkUpserted(absl::Span<const int64_t> ids) {
  if (marks_ == nullptr) return status();
  if (!holds_) return marks_->MarkUpserted(ids);
  std::vector<int64_t> held;
  for (const int64_t id : ids) {
    // An invalid id is an error on every rank.
    if (static_cast<uint64_t>(id) >= rows_ || holds_(id)) held.push_back(id);
  }
  return marks_->MarkUpserted(held);
}

absl::Status VectorTable::SetArrays(std::vector<AnyArray> arrays) {
  CKPTDB_RETURN_IF_ERROR(CheckArrays(rows_, arrays));
  if (SlotsOfArrays(arrays) != slots()) {
    return absl::InvalidArgumentError(
        "SetArrays: the arrays have other names, dtypes, elements or codecs "
        "than those of the VectorTable");
  }
  arrays_ = std::move(arrays);
  return absl::OkStatus();
}

RowBitmap* VectorTable::tracker() { return marks_.get(); }

absl::StatusOr<std::unique_ptr<RowSource>> VectorTable::AllRows() const {
  CKPTDB_RETURN_IF_ERROR(status());
  auto rows = std::make_unique<Rows>(*this);
  CKPTDB_RETURN_IF_ERROR(rows->FindAll());
  return rows;
}

absl::StatusOr<std::unique_ptr<RowSource>> VectorTable::RowsOf(
    absl::Span<const int64_t> ids) const {
  CKPTDB_RETURN_IF_ERROR(status());
  auto rows = std::make_unique<Rows>(*this);
  CKPTDB_RETURN_IF_ERROR(rows->Find(ids));
  return rows;
}

std::optional<uint64_t> VectorTable::capacity() const { return rows_; }
absl::Status VectorTable::CheckId(int64_t id) const {
  return CheckRow(id, rows_);
}

LiveTable* VectorTable::Live(absl::Span<const std::string> slots) {
  std::optional<std::vector<size_t>> chosen = FindSlots(slots);
  if (!chosen.has_value()) return nullptr;
  live_ = std::make_unique<LiveRows>(*this, *std::move(chosen));
  return live_.get();
}

}  // namespace ckptdb
