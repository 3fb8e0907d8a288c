// Rows of a ColumnTable: an index, and chunks of rows that never move.
#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cstring>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "ckptdb/db/base/call_guard.h"
#include "ckptdb/db/base/large_array.h"
#include "ckptdb/db/base/mutex.h"
#include "ckptdb/db/base/parallel.h"
#include "ckptdb/manager/state/row_parts.h"
#include "ckptdb/manager/tables.h"

namespace ckptdb {
namespace {

using internal::LargeArray;

constexpr uint64_t kRows = ColumnTable::kRowsPerChunk;
constexpr uint64_t kWordBits = 64;
constexpr uint64_t kWords = kRows / kWordBits;
constexpr uint64_t kNoRow = ~uint64_t{0};

// A bit for each row of a chunk.
using RowBits = std::array<uint64_t, kWords>;

template <typename Visit>
// Calls visit(row) for each bit that is set, in ascending order.
void ForBits(const RowBits& bits, const Visit& visit) {
  for (uint64_t word = 0; word < kWords; ++word) {
    for (uint64_t rest = bits[word]; rest != 0; rest &= rest - 1) {
      visit(word * kWordBits + static_cast<uint64_t>(std::countr_zero(rest)));
    }
  }
}

}  // namespace

class ColumnTable::Columns {
 public:
  explicit Columns(const std::vector<Slot>& slots) : values_(slots.size()) {
    for (const Slot& slot : slots) row_bytes_.push_back(slot.row_bytes());
  }

  uint64_t size() const { return index_.size(); }
  const std::vector<char*>* chunks(size_t slot) const { return &values_[slot]; }
  char* ValueOf(size_t slot, Row row) const {
    return values_[slot][row / kRows] + row % kRows * row_bytes_[slot];
  }
  uint64_t row_bytes(size_t slot) const { return row_bytes_[slot]; }
  int64_t IdOf(Row row) const { return chunks_[row / kRows].ids[row % kRows]; }

  std::optional<Row> Find(int64_t id) const {
    const auto found = index_.find(id);
    if (found == index_.end()) return std::nullopt;
    return found->second;
  }
  void Prefetch(int64_t id) const { index_.prefetch(id); }

  absl::StatusOr<Inserted> Insert(int64_t id);
  bool Erase(int64_t id);
  void Clear();

  size_t chunk_count() const { return chunks_.size(); }
  const RowBits& live(size_t chunk) const { return chunks_[chunk].live; }
  const int64_t* ids(size_t chunk) const { return chunks_[chunk].ids.get(); }
  std::vector<RowBlock::Column> slots(size_t chunk) const;

 private:
  // Rows are in chunks so that a table grows without moving them: a trainer may
  // keep addresses of rows.
  struct Chunk {
    LargeArray<int64_t> ids;  // of a free row the next free one
    std::vector<LargeArray<char>> values;
    RowBits live = {};
  };
  absl::Status MakeRoom();
  Row TakeRow();

  std::vector<uint64_t> row_bytes_;  // by slot
  absl::flat_hash_map<int64_t, Row> index_;
  std::vector<Chunk> chunks_;
  std::vector<std::vector<char*>> values_;  // by slot, then by chunk
  Row next_row_ = 0;
  Row free_ = kNoRow;  // the first of a list
};

std::vector<RowBlock::Column> ColumnTable::Columns::slots(size_t chunk) const {
  std::vector<RowBlock::Column> slots;
  for (size_t s = 0; s < values_.size(); ++s) {
    slots.push_back({values_[s][chunk], row_bytes_[s]});
  }
  return slots;
}

// Makes room for one row: nothing is needed if a row is free, else a chunk with
// the memory of all slots.
absl::Status ColumnTable::Columns::MakeRoom() {
  if (free_ != kNoRow || next_row_ < chunks_.size() * kRows) {
    return absl::OkStatus();
  }
  Chunk chunk;
  chunk.ids = internal::AllocateArray<int64_t>(kRows);
  bool has_memory = chunk.ids != nullptr;
  for (const uint64_t bytes : row_bytes_) {
    chunk.values.push_back(internal::AllocateArray<char>(kRows * bytes));
    has_memory &= chunk.values.back() != nullptr;
  }
  if (!has_memory) {
    return absl::ResourceExhaustedError(
        absl::StrCat("no memory for ", kRows, " more rows"));
  }
  // All that may throw comes first.
  for (std::vector<char*>& values : values_) {
    values.reserve(std::max(values.capacity(), 2 * (values.size() + 1)));
  }
  chunks_.push_back(std::move(chunk));
  for (size_t s = 0; s < values_.size(); ++s) {
    values_[s].push_back(chunks_.back().values[s].get());
  }
  return absl::OkStatus();
}

ColumnTable::Row ColumnTable::Columns::TakeRow() {
  if (free_ == kNoRow) return next_row_++;
  // Free rows are a list through their ids, which takes no memory and hands the
  // row that was erased last out first.
  const Row row = free_;
  free_ = static_cast<Row>(IdOf(row));
  return row;
}

absl::StatusOr<ColumnTable::Inserted> ColumnTable::Columns::Insert(int64_t id) {
  CKPTDB_RETURN_IF_ERROR(MakeRoom());
  // There is room by now, and TakeRow cannot fail. So if the index throws for
  // lack of memory, the table is as it was.
  const auto [entry, is_new] = index_.try_emplace(id);
  if (is_new) {
    const Row row = TakeRow();
    entry->second = row;
    Chunk& chunk = chunks_[row / kRows];
    chunk.ids[row % kRows] = id;
    chunk.live[row % kRows / kWordBits] |= uint64_t{1} << row % kWordBits;
    // The memory may be that of an erased row.
    for (size_t s = 0; s < values_.size(); ++s) {
      std::memset(ValueOf(s, row), 0, row_bytes_[s]);
    }
  }
  return Inserted{entry->second, is_new};
}

// The row goes to the front of the list of free ones. Its values stay until
// Insert clears them.
bool ColumnTable::Columns::Erase(int64_t id) {
  const auto found = index_.find(id);
  if (found == index_.end()) return false;
  const Row row = found->second;
  index_.erase(found);
  Chunk& chunk = chunks_[row / kRows];
  chunk.live[row % kRows / kWordBits] &= ~(uint64_t{1} << row % kWordBits);
  chunk.ids[row % kRows] = static_cast<int64_t>(free_);
  free_ = row;
  return true;
}

void ColumnTable::Columns::Clear() {
  index_.clear();
  chunks_.clear();
  for (std::vector<char*>& values : values_) values.clear();
  next_row_ = 0;
  free_ = kNoRow;
}

namespace {

// Rows where the columns have them, a block for each chunk.
template <typename Columns>
class ColumnRows : public internal::RowParts {
 public:
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
      // A chunk without gaps is one block as it lies in memory. Only one with
      // gaps needs a list of its rows.
      if (rows == 0 || !StartsWith(live, rows)) {
        Choose(chunk, live);
      } else {
        parts_[chunk].ids = absl::MakeConstSpan(columns_.ids(chunk), rows);
      }
    });
  }

  absl::Status Find(absl::Span<const int64_t> ids) {
    constexpr size_t kIdsPerTask = 4096;
    // A bit for each row puts the ids in the order of memory without a sort,
    // and several threads can set it.
    std::vector<std::atomic<uint64_t>> marked(parts_.size() * kWords);
    CKPTDB_RETURN_IF_ERROR(internal::ParallelFor(
        threads_, (ids.size() + kIdsPerTask - 1) / kIdsPerTask,
        [&](int, uint64_t task) {
          return Mark(ids.subspan(task * kIdsPerTask, kIdsPerTask), &marked);
        }));
    return ForChunks([&](size_t chunk) {
      RowBits bits;
      std::copy_n(marked.begin() + static_cast<ptrdiff_t>(chunk * kWords),
                  kWords, bits.begin());
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
    for (uint64_t word = 0; word < rows / kWordBits; ++word) {
      if (bits[word] != ~uint64_t{0}) return false;
    }
    const uint64_t rest = (uint64_t{1} << rows % kWordBits) - 1;
    return rest == 0 || (bits[rows / kWordBits] & rest) == rest;
  }

  absl::Status Mark(absl::Span<const int64_t> ids,
                    std::vector<std::atomic<uint64_t>>* marked) const {
    constexpr size_t kAhead = 16;
    for (size_t i = 0; i < ids.size(); ++i) {
      // Some ids are asked for ahead, so that the lookups do not wait for
      // memory one after the other.
      if (i + kAhead < ids.size()) columns_.Prefetch(ids[i + kAhead]);
      const auto row = columns_.Find(ids[i]);
      if (!row.has_value()) {
        return absl::InternalError(
            absl::StrCat("row ", ids[i],
                         " was marked as upserted, and is not in the table"));
      }
      (*marked)[*row / kWordBits].fetch_or(uint64_t{1} << *row % kWordBits,
                                           std::memory_order_relaxed);
    }
    return absl::OkStatus();
  }

  // Lists the rows of a chunk that are to be saved, and their ids side by side.
  void Choose(size_t chunk, const RowBits& bits) {
    Part& part = parts_[chunk];
    const int64_t* const ids = columns_.ids(chunk);
    ForBits(bits, [&](uint64_t row) {
      part.rows.push_back(static_cast<uint32_t>(row));
      part.own_ids.push_back(ids[row]);
    });
    part.ids = part.own_ids;
  }

  const Columns& columns_;
  const int threads_;
};

}  // namespace

// Puts the rows of a restore into the columns.
class ColumnTable::LiveRows : public LiveTable {
 public:
  LiveRows(Columns* columns, std::vector<size_t> slots)
      : columns_(columns), slots_(std::move(slots)) {}

  absl::Status Clear() override {
    const internal::MutexLock lock(&mutex_);
    columns_->Clear();
    return absl::OkStatus();
  }
  // One worker at a time, as an insertion may grow the index.
  absl::Status Consume(int /*worker*/, const RowSink::Batch& batch) override {
    const internal::MutexLock lock(&mutex_);
    for (size_t r = 0; r < batch.ids.size(); ++r) {
      CKPTDB_ASSIGN_OR_RETURN(const Inserted at,
                              columns_->Insert(batch.ids[r]));
      for (size_t s = 0; s < slots_.size(); ++s) {
        const uint64_t bytes = columns_->row_bytes(slots_[s]);
        std::memcpy(columns_->ValueOf(slots_[s], at.row),
                    batch.slots[s] + r * bytes, bytes);
      }
    }
    return absl::OkStatus();
  }
  absl::Status Erase(int /*worker*/, absl::Span<const int64_t> ids) override {
    const internal::MutexLock lock(&mutex_);
    for (const int64_t id : ids) columns_->Erase(id);
    return absl::OkStatus();
  }

 private:
  internal::Mutex mutex_;
  Columns* const columns_ ABSL_PT_GUARDED_BY(mutex_);
  const std::vector<size_t> slots_;
};

ColumnTable::ColumnTable(std::vector<Slot> slots, TableOptions options)
    : AdaptedTable(absl::OkStatus(), std::move(slots), std::move(options)),
      columns_(std::make_unique<Columns>(this->slots())),
      tracker_(this->options().tracker) {}

ColumnTable::~ColumnTable() = default;

// A column is a typed view of the slot's memory, so another dtype is refused
// here, and not when numbers are read.
absl::StatusOr<size_t> ColumnTable::FindColumn(absl::string_view slot,
                                               DType dtype) const {
  CKPTDB_RETURN_IF_ERROR(status());
  const auto found = FindSlots({std::string(slot)});
  if (!found.has_value()) {
    return absl::NotFoundError(
        absl::StrCat("the table has no slot \"", slot, "\""));
  }
  const DType own = slots()[found->front()].dtype;
  if (own == dtype) return found->front();
  return absl::InvalidArgumentError(absl::StrCat("slot \"", slot, "\" is of ",
                                                 DTypeName(own), ", not of ",
                                                 DTypeName(dtype)));
}

const std::vector<char*>* ColumnTable::Chunks(size_t slot) const {
  return columns_->chunks(slot);
}

uint32_t ColumnTable::Elements(size_t slot) const {
  return slots()[slot].elements;
}

uint64_t ColumnTable::size() const { return columns_->size(); }

std::optional<ColumnTable::Row> ColumnTable::Find(int64_t id) const {
  return columns_->Find(id);
}

int64_t ColumnTable::IdOf(Row row) const { return columns_->IdOf(row); }

void ColumnTable::ForEach(
    const std::function<void(int64_t id, Row row)>& visit) const {
  for (size_t chunk = 0; chunk < columns_->chunk_count(); ++chunk) {
    ForBits(columns_->live(chunk), [&](uint64_t row) {
      visit(columns_->ids(chunk)[row], chunk * kRows + row);
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
  constexpr size_t kAhead = 16;
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
          if (i + kAhead < ids.size()) columns_->Prefetch(ids[i + kAhead]);
          CKPTDB_ASSIGN_OR_RETURN(const Inserted at, columns_->Insert(ids[i]));
          rows->push_back(at);
        }
        return absl::OkStatus();
      });
  // Rows are marked after an error, too: those before it are in the table.
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

// The tracker has to know every id that goes, so the ids are listed before the
// rows are gone.
void ColumnTable::Clear() {
  std::vector<int64_t> ids;
  ids.reserve(size());
  ForEach([&](int64_t id, Row) { ids.push_back(id); });
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

// The object of the call before goes: one restore at a time uses a table.
LiveTable* ColumnTable::Live(absl::Span<const std::string> slots) {
  std::optional<std::vector<size_t>> chosen = FindSlots(slots);
  if (!chosen.has_value()) return nullptr;
  live_ = std::make_unique<LiveRows>(columns_.get(), *std::move(chosen));
  return live_.get();
}

}  // namespace ckptdb
