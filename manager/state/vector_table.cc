// SPDX-License-Identifier: Apache-2.0
// Rows in the trainer's arrays, by index.
#include <algorithm>
#include <cstring>
#include <limits>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "db/base/parallel.h"
#include "db/base/row_block.h"
#include "manager/state/row_parts.h"
#include "manager/tables.h"
#include "schema/status.h"

namespace ckptdb {
namespace {

using internal::AnyArray;

// The number of rows in a block.
constexpr uint64_t kArrayRows = uint64_t{1} << 20;
constexpr int64_t kMaxId = std::numeric_limits<int64_t>::max();

// Returns InvalidArgument if the arrays cannot hold these rows. A table without
// rows may have null arrays.
absl::Status CheckArrays(uint64_t rows, int64_t first_id,
                         const std::vector<AnyArray>& arrays) {
  if (rows > kMaxBitmapRows) {
    return absl::InvalidArgumentError(absl::StrCat(
        "a VectorTable of ", rows, " rows; the limit is ", kMaxBitmapRows));
  }
  if (first_id > kMaxId - static_cast<int64_t>(rows)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "a VectorTable of ", rows, " rows from id ", first_id,
        "; the largest first id is ", kMaxId - static_cast<int64_t>(rows)));
  }
  for (const AnyArray& array : arrays) {
    if (array.data == nullptr && rows > 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("the array of slot \"", array.slot.name, "\" is null"));
    }
    if (array.stride_bytes < array.row_bytes()) {
      return absl::InvalidArgumentError(
          absl::StrCat("TableOptions::Field::stride_bytes ", array.stride_bytes,
                       " of slot \"", array.slot.name, "\" is below the ",
                       array.row_bytes(), " bytes of its row"));
    }
    if (uint64_t{array.first} + array.elements > array.slot.elements) {
      return absl::InvalidArgumentError(absl::StrCat(
          "slot \"", array.slot.name, "\" has columns ", array.first,
          " to below ", uint64_t{array.first} + array.elements,
          " here, but only ", array.slot.elements, " in all"));
    }
  }
  return absl::OkStatus();
}

// The arrays belong to the trainer and cannot grow.
absl::Status NoRow(int64_t id, uint64_t rows, int64_t first_id) {
  if (first_id == 0) {
    return absl::OutOfRangeError(
        absl::StrCat("row ", id, " of the step is beyond the ", rows,
                     " rows of the VectorTable; give it larger arrays"));
  }
  return absl::OutOfRangeError(absl::StrCat(
      "row ", id, " of the step is not among the ", rows,
      " rows of the VectorTable, whose ids are ", first_id, " to ",
      first_id + static_cast<int64_t>(rows) - 1,
      "; give it another first id or larger arrays, or declare a sharding that "
      "gives the row to another rank"));
}

std::vector<Slot> SlotsOfArrays(const std::vector<AnyArray>& arrays) {
  std::vector<Slot> slots;
  for (const AnyArray& array : arrays) slots.push_back(array.slot);
  return slots;
}

bool SameColumns(const std::vector<AnyArray>& a,
                 const std::vector<AnyArray>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](const AnyArray& one, const AnyArray& other) {
                      return one.first == other.first &&
                             one.elements == other.elements;
                    });
}

}  // namespace

class VectorTable::Rows : public internal::RowParts {
 public:
  explicit Rows(const VectorTable& table) : table_(table) {}

  // Each block covers one part of the arrays.
  absl::Status FindAll() {
    parts_.resize((table_.rows_ + kArrayRows - 1) / kArrayRows);
    return internal::ParallelFor(
        table_.options().threads, parts_.size(), [&](int, uint64_t number) {
          const uint64_t first = number * kArrayRows;
          Part& part = parts_[number];
          part.slots = SlotsFrom(first);
          part.own_ids.resize(std::min(kArrayRows, table_.rows_ - first));
          std::iota(part.own_ids.begin(), part.own_ids.end(),
                    table_.first_id_ + static_cast<int64_t>(first));
          if (table_.holds_) Choose(first, &part);
          part.ids = part.own_ids;
          return absl::OkStatus();
        });
  }

  // Ascending ids yield few blocks.
  absl::Status Find(absl::Span<const int64_t> ids) {
    size_t begin = 0;
    for (size_t i = 0; i < ids.size(); ++i) {
      const uint64_t row = table_.RowOf(ids[i]);
      if (row >= table_.rows_) {
        return absl::InternalError(
            absl::StrCat("row ", ids[i],
                         " was marked as upserted, but the "
                         "table has ",
                         table_.rows_, " rows"));
      }
      const uint64_t first = row / kArrayRows * kArrayRows;
      if (i == 0 ||
          first != table_.RowOf(ids[begin]) / kArrayRows * kArrayRows) {
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
      part->rows.push_back(static_cast<uint32_t>(table_.RowOf(id) - first));
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
          const uint64_t first = part * kArrayRows;
          ZeroRows(first, std::min(kArrayRows, table_.rows_ - first));
          return absl::OkStatus();
        });
  }
  absl::Status Consume(int /*worker*/, const RowSink::Batch& batch) override {
    for (const int64_t id : batch.ids) {
      CKPTDB_RETURN_IF_ERROR(table_.CheckId(id));
    }
    for (size_t s = 0; s < slots_.size(); ++s) {
      const AnyArray& array = table_.arrays_[slots_[s]];
      internal::ScatterRows(batch.ids.size(), array.row_bytes(),
                            batch.slots[s] + array.first_byte(),
                            array.slot.row_bytes(), [&](uint64_t r) {
                              return array.data + table_.RowOf(batch.ids[r]) *
                                                      array.stride_bytes;
                            });
    }
    return absl::OkStatus();
  }
  absl::Status Erase(int /*worker*/, absl::Span<const int64_t> ids) override {
    for (const int64_t id : ids) {
      const uint64_t row = table_.RowOf(id);
      if (row < table_.rows_) ZeroRows(row, 1);
    }
    return absl::OkStatus();
  }

 private:
  void ZeroRows(uint64_t first, uint64_t rows) const {
    for (const size_t slot : slots_) {
      const AnyArray& array = table_.arrays_[slot];
      const uint64_t bytes = array.row_bytes();
      char* const data = array.data + first * array.stride_bytes;
      if (array.stride_bytes == bytes) {
        std::memset(data, 0, rows * bytes);
        continue;
      }
      for (uint64_t row = 0; row < rows; ++row) {
        std::memset(data + row * array.stride_bytes, 0, bytes);
      }
    }
  }

  const VectorTable& table_;
  const std::vector<size_t> slots_;
};

VectorTable::VectorTable(uint64_t rows, std::vector<AnyArray> arrays,
                         TableOptions options,
                         std::function<bool(int64_t id)> holds,
                         int64_t first_id)
    : AdaptedTable(CheckArrays(rows, first_id, arrays), SlotsOfArrays(arrays),
                   std::move(options)),
      rows_(rows),
      first_id_(first_id),
      arrays_(std::move(arrays)),
      holds_(std::move(holds)) {
  // Make fails only for too many rows, which CheckArrays has reported.
  absl::StatusOr<std::unique_ptr<RowBitmap>> marks =
      RowBitmap::Make(rows, first_id);
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
    if (RowOf(id) >= rows_ || holds_(id)) held.push_back(id);
  }
  return marks_->MarkUpserted(held);
}

absl::Status VectorTable::SetArrays(std::vector<AnyArray> arrays) {
  CKPTDB_RETURN_IF_ERROR(CheckArrays(rows_, first_id_, arrays));
  if (SlotsOfArrays(arrays) != slots() || !SameColumns(arrays, arrays_)) {
    return absl::InvalidArgumentError(
        "SetArrays: the names, dtypes, elements and codecs of the arrays must "
        "be those of the VectorTable");
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
  if (RowOf(id) < rows_) return absl::OkStatus();
  return NoRow(id, rows_, first_id_);
}

std::optional<std::vector<TableState::Columns>> VectorTable::columns() const {
  std::vector<Columns> columns;
  bool divided = false;
  for (const AnyArray& array : arrays_) {
    columns.push_back(
        {static_cast<uint32_t>(columns.size()), array.first, array.elements});
    divided |= array.elements != array.slot.elements;
  }
  if (!divided) return std::nullopt;
  return columns;
}

LiveTable* VectorTable::Live(absl::Span<const std::string> slots) {
  std::optional<std::vector<size_t>> chosen = FindSlots(slots);
  if (!chosen.has_value()) return nullptr;
  live_ = std::make_unique<LiveRows>(*this, *std::move(chosen));
  return live_.get();
}

}  // namespace ckptdb
