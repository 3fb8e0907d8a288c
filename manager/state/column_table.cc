// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <atomic>
#include <bit>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "db/base/call_guard.h"
#include "db/base/parallel.h"
#include "manager/state/column_live_rows.h"
#include "manager/state/columns.h"
#include "manager/state/row_parts.h"
#include "manager/tables.h"
#include "schema/status.h"

namespace ckptdb {
namespace {

// The rows of a save in the columns' memory: a block for each chunk.
template <typename Columns>
class ColumnRows : public internal::RowParts {
 public:
  using RowBits = typename Columns::RowBits;

  ColumnRows(const Columns& columns, int threads)
      : columns_(columns), threads_(threads) {
    parts_.resize(columns.chunk_count());
  }

  absl::Status FindAll() {
    return ForChunks([&](size_t chunk) {
      const RowBits& live = columns_.live(chunk);
      uint64_t rows = 0;
      for (const uint64_t word : live) {
        rows += static_cast<uint64_t>(std::popcount(word));
      }
      // Only a chunk with gaps needs a list of its rows.
      if (rows == 0 || !StartsWith(live, rows)) {
        Choose(chunk, live);
      } else {
        parts_[chunk].ids = absl::MakeConstSpan(columns_.ids(chunk), rows);
      }
    });
  }

  absl::Status Find(absl::Span<const int64_t> ids) {
    constexpr size_t kIdsPerTask = 4096;
    // A bit for each row sorts the ids by address, and several threads can set
    // bits at once.
    std::vector<std::atomic<uint64_t>> marked(parts_.size() * Columns::kWords);
    CKPTDB_RETURN_IF_ERROR(internal::ParallelFor(
        threads_, (ids.size() + kIdsPerTask - 1) / kIdsPerTask,
        [&](int, uint64_t task) {
          return Mark(ids.subspan(task * kIdsPerTask, kIdsPerTask), &marked);
        }));
    return ForChunks([&](size_t chunk) {
      RowBits bits;
      std::copy_n(
          marked.begin() + static_cast<ptrdiff_t>(chunk * Columns::kWords),
          Columns::kWords, bits.begin());
      Choose(chunk, bits);
    });
  }

 private:
  template <typename Task>
  absl::Status ForChunks(const Task& task) {
    return internal::ParallelFor(threads_, parts_.size(),
                                 [&](int, uint64_t chunk) {
                                   parts_[chunk].slots = columns_.slots(chunk);
                                   task(chunk);
                                   return absl::OkStatus();
                                 });
  }

  // Returns whether the bits of the first `rows` rows are all set.
  static bool StartsWith(const RowBits& bits, uint64_t rows) {
    for (uint64_t word = 0; word < rows / Columns::kWordBits; ++word) {
      if (bits[word] != ~uint64_t{0}) return false;
    }
    const uint64_t rest = (uint64_t{1} << rows % Columns::kWordBits) - 1;
    return rest == 0 || (bits[rows / Columns::kWordBits] & rest) == rest;
  }

  absl::Status Mark(absl::Span<const int64_t> ids,
                    std::vector<std::atomic<uint64_t>>* marked) const {
    for (size_t i = 0; i < ids.size(); ++i) {
      if (i + Columns::kAhead < ids.size())
        columns_.Prefetch(ids[i + Columns::kAhead]);
      const auto row = columns_.Find(ids[i]);
      if (!row.has_value()) {
        return absl::InternalError(absl::StrCat(
            "row ", ids[i], " was marked as upserted but is not in the table"));
      }
      (*marked)[*row / Columns::kWordBits].fetch_or(
          uint64_t{1} << *row % Columns::kWordBits, std::memory_order_relaxed);
    }
    return absl::OkStatus();
  }

  // Lists the rows of a chunk to save, and their ids.
  void Choose(size_t chunk, const RowBits& bits) {
    Part& part = parts_[chunk];
    const int64_t* const ids = columns_.ids(chunk);
    Columns::ForBits(bits, [&](uint64_t row) {
      part.rows.push_back(static_cast<uint32_t>(row));
      part.own_ids.push_back(ids[row]);
    });
    part.ids = part.own_ids;
  }

  const Columns& columns_;
  const int threads_;
};

}  // namespace

ColumnTable::ColumnTable(std::vector<Slot> slots, TableOptions options)
    : AdaptedTable(absl::OkStatus(), std::move(slots), std::move(options)),
      columns_(std::make_unique<Columns>(this->slots())),
      tracker_(this->options().tracker_bytes) {}

ColumnTable::~ColumnTable() = default;

absl::StatusOr<size_t> ColumnTable::FindSlot(absl::string_view slot) const {
  CKPTDB_RETURN_IF_ERROR(status());
  const auto found = FindSlots({std::string(slot)});
  if (found.has_value()) return found->front();
  return absl::NotFoundError(
      absl::StrCat("the table has no slot \"", slot, "\""));
}

// A column is a typed view of the slot's memory, so it must have the slot's
// dtype.
absl::StatusOr<size_t> ColumnTable::FindColumn(absl::string_view slot,
                                               DType dtype) const {
  CKPTDB_ASSIGN_OR_RETURN(const size_t found, FindSlot(slot));
  const DType own = slots()[found].dtype;
  if (own == dtype) return found;
  return absl::InvalidArgumentError(
      absl::StrCat("slot \"", slot, "\" has dtype ", DTypeName(own), ", not ",
                   DTypeName(dtype)));
}

const std::vector<char*>* ColumnTable::Chunks(size_t slot) const {
  return columns_->chunks(slot);
}

uint32_t ColumnTable::Elements(size_t slot) const {
  return slots()[slot].elements;
}

uint64_t ColumnTable::size() const { return columns_->size(); }

std::optional<uint64_t> ColumnTable::Find(int64_t id) const {
  return columns_->Find(id);
}

int64_t ColumnTable::IdOf(uint64_t row) const { return columns_->IdOf(row); }

void ColumnTable::FindRows(absl::Span<const int64_t> ids,
                           absl::Span<int64_t> rows) const {
  for (size_t i = 0; i < ids.size(); ++i) {
    if (i + Columns::kAhead < ids.size())
      columns_->Prefetch(ids[i + Columns::kAhead]);
    const std::optional<uint64_t> row = columns_->Find(ids[i]);
    rows[i] = row.has_value() ? static_cast<int64_t>(*row) : -1;
  }
}

absl::Status ColumnTable::CheckRows(absl::Span<const int64_t> rows) const {
  for (size_t i = 0; i < rows.size(); ++i) {
    if (columns_->IsRow(static_cast<uint64_t>(rows[i]))) continue;
    return absl::OutOfRangeError(absl::StrCat(
        "number ", rows[i], " at index ", i,
        " is not a row of the table; rows come from Insert and Find"));
  }
  return absl::OkStatus();
}

absl::Status ColumnTable::Gather(absl::string_view slot,
                                 absl::Span<const int64_t> rows,
                                 void* values) const {
  CKPTDB_ASSIGN_OR_RETURN(const size_t number, FindSlot(slot));
  CKPTDB_RETURN_IF_ERROR(CheckRows(rows));
  const uint64_t bytes = columns_->row_bytes(number);
  char* to = static_cast<char*>(values);
  for (const int64_t row : rows) {
    std::memcpy(to, columns_->ValueOf(number, static_cast<uint64_t>(row)),
                bytes);
    to += bytes;
  }
  return absl::OkStatus();
}

absl::Status ColumnTable::Put(absl::string_view slot,
                              absl::Span<const int64_t> rows,
                              const void* values) {
  CKPTDB_ASSIGN_OR_RETURN(const size_t number, FindSlot(slot));
  CKPTDB_RETURN_IF_ERROR(CheckRows(rows));
  const uint64_t bytes = columns_->row_bytes(number);
  const char* from = static_cast<const char*>(values);
  std::vector<int64_t> ids;
  ids.reserve(rows.size());
  for (const int64_t row : rows) {
    const auto at = static_cast<uint64_t>(row);
    std::memcpy(columns_->ValueOf(number, at), from, bytes);
    from += bytes;
    ids.push_back(columns_->IdOf(at));
  }
  tracker_.MarkUpserted(ids);
  return absl::OkStatus();
}

void ColumnTable::ForEach(
    const std::function<void(int64_t id, uint64_t row)>& visit) const {
  for (size_t chunk = 0; chunk < columns_->chunk_count(); ++chunk) {
    Columns::ForBits(columns_->live(chunk), [&](uint64_t row) {
      visit(columns_->ids(chunk)[row], chunk * Columns::kRows + row);
    });
  }
}

absl::StatusOr<ColumnTable::Inserted> ColumnTable::Insert(int64_t id) {
  CKPTDB_RETURN_IF_ERROR(status());
  CKPTDB_ASSIGN_OR_RETURN(const Inserted at,
                          internal::CallGuarded("ColumnTable::Insert", [&] {
                            return columns_->Insert(id);
                          }));
  tracker_.MarkUpserted({id});
  return at;
}

absl::Status ColumnTable::Insert(absl::Span<const int64_t> ids,
                                 std::vector<Inserted>* rows) {
  CKPTDB_RETURN_IF_ERROR(status());
  if (rows == nullptr) {
    return absl::InvalidArgumentError(
        "ColumnTable::Insert: rows is null; pass a vector for the rows of the "
        "ids");
  }
  absl::Status inserted =
      internal::CallGuarded("ColumnTable::Insert", [&]() -> absl::Status {
        rows->clear();
        rows->reserve(ids.size());
        for (size_t i = 0; i < ids.size(); ++i) {
          if (i + Columns::kAhead < ids.size())
            columns_->Prefetch(ids[i + Columns::kAhead]);
          CKPTDB_ASSIGN_OR_RETURN(const Inserted at, columns_->Insert(ids[i]));
          rows->push_back(at);
        }
        return absl::OkStatus();
      });
  // After an error, the rows before it are in the table, so they are marked.
  tracker_.MarkUpserted(ids.subspan(0, rows->size()));
  return inserted;
}

uint64_t ColumnTable::Erase(absl::Span<const int64_t> ids) {
  uint64_t erased = 0;
  for (const int64_t id : ids) {
    if (columns_->Erase(id)) ++erased;
  }
  tracker_.MarkErased(ids);
  return erased;
}

// The tracker must know every erased id, so the ids are listed first.
void ColumnTable::Clear() {
  std::vector<int64_t> ids;
  ids.reserve(size());
  ForEach([&](int64_t id, uint64_t) { ids.push_back(id); });
  tracker_.MarkErased(ids);
  columns_->Clear();
}

void ColumnTable::MarkUpserted(absl::Span<const int64_t> ids) {
  tracker_.MarkUpserted(ids);
}

RowTracker* ColumnTable::tracker() { return &tracker_; }

absl::StatusOr<std::unique_ptr<RowSource>> ColumnTable::AllRows() const {
  CKPTDB_RETURN_IF_ERROR(status());
  auto rows =
      std::make_unique<ColumnRows<Columns>>(*columns_, options().threads);
  CKPTDB_RETURN_IF_ERROR(rows->FindAll());
  return rows;
}

absl::StatusOr<std::unique_ptr<RowSource>> ColumnTable::RowsOf(
    absl::Span<const int64_t> ids) const {
  CKPTDB_RETURN_IF_ERROR(status());
  auto rows =
      std::make_unique<ColumnRows<Columns>>(*columns_, options().threads);
  CKPTDB_RETURN_IF_ERROR(rows->Find(ids));
  return rows;
}

// Replaces the object of the previous call: one restore at a time uses a table.
LiveTable* ColumnTable::Live(absl::Span<const std::string> slots) {
  std::optional<std::vector<size_t>> chosen = FindSlots(slots);
  if (!chosen.has_value()) return nullptr;
  live_ = std::make_unique<LiveRows>(columns_.get(), *std::move(chosen));
  return live_.get();
}

}  // namespace ckptdb
