// SPDX-License-Identifier: Apache-2.0
// The rows of a ColumnTable: an index, and chunks of memory that never move.
#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cstring>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "db/base/call_guard.h"
#include "db/base/large_array.h"
#include "db/base/mutex.h"
#include "db/base/parallel.h"
#include "manager/state/row_parts.h"
#include "manager/tables.h"

namespace ckptdb {
namespace {

using internal::LargeArray;

constexpr uint64_t kRows = ColumnTable::kRowsPerChunk;
constexpr uint64_t kWordBits = 64;
constexpr uint64_t kWords = kRows / kWordBits;
constexpr uint64_t kNoRow = ~uint64_t{0};
// Ids whose places in the index are prefetched, so that lookups do not wait for
// memory one after the other.
constexpr size_t kAhead = 16;

// A bit for each row of a chunk.
using RowBits = std::array<uint64_t, kWords>;

// Calls visit(row) for each bit that is set, in ascending order.
template <typename Visit>
void ForBits(const RowBits& bits, const Visit& visit) {
  for (uint64_t word = 0; word < kWords; ++word) {
    for (uint64_t rest = bits[word]; rest != 0; rest &= rest - 1) {
      visit(word * kWordBits + static_cast<uint64_t>(std::countr_zero(rest)));
    }
  }
}

}  // namespace

class ColumnTable::Columns {
 private:
  // Rows are in chunks so that a table grows without moving them: a trainer may
  // keep addresses of rows, and a restore writes to rows while others are
  // added.
  struct Chunk {
    LargeArray<int64_t> ids;  // the id of a free row is the next free row
    std::vector<LargeArray<char>> values;  // by slot
    RowBits live = {};
  };

 public:
  // A row in memory, which stays there until it is erased or the table cleared.
  class Place {
   public:
    Place(const Chunk* chunk, uint64_t row, bool is_new)
        : chunk_(chunk), row_(row), is_new_(is_new) {}

    uint64_t row() const { return row_; }
    bool is_new() const { return is_new_; }
    char* ValueOf(size_t slot, uint64_t row_bytes) const {
      return chunk_->values[slot].get() + row_ % kRows * row_bytes;
    }

   private:
    const Chunk* chunk_;
    uint64_t row_ : 63;
    uint64_t is_new_ : 1;
  };

  explicit Columns(const std::vector<Slot>& slots) : values_(slots.size()) {
    for (const Slot& slot : slots) row_bytes_.push_back(slot.row_bytes());
  }

  uint64_t size() const { return index_.size(); }
  const std::vector<char*>* chunks(size_t slot) const { return &values_[slot]; }
  char* ValueOf(size_t slot, uint64_t row) const {
    return values_[slot][row / kRows] + row % kRows * row_bytes_[slot];
  }
  size_t slot_count() const { return row_bytes_.size(); }
  uint64_t row_bytes(size_t slot) const { return row_bytes_[slot]; }
  int64_t IdOf(uint64_t row) const {
    return chunks_[row / kRows]->ids[row % kRows];
  }

  std::optional<uint64_t> Find(int64_t id) const {
    const auto found = index_.find(id);
    if (found == index_.end()) return std::nullopt;
    return found->second;
  }
  void Prefetch(int64_t id) const { index_.prefetch(id); }
  bool IsRow(uint64_t row) const {
    return row < chunks_.size() * kRows &&
           (chunks_[row / kRows]->live[row % kRows / kWordBits] >>
                row % kWordBits &
            1) != 0;
  }

  // Returns the row of the id, which is added if it is missing, with zeros.
  absl::StatusOr<Inserted> Insert(int64_t id);
  // Appends the rows of the ids to *places. Rows that are added have arbitrary
  // values. After an error or an exception, *places has the rows of the ids
  // before the one that failed.
  absl::Status Reserve(absl::Span<const int64_t> ids,
                       std::vector<Place>* places);
  bool Erase(int64_t id);
  void Clear();

  size_t chunk_count() const { return chunks_.size(); }
  const RowBits& live(size_t chunk) const { return chunks_[chunk]->live; }
  const int64_t* ids(size_t chunk) const { return chunks_[chunk]->ids.get(); }
  std::vector<RowBlock::SlotValues> slots(size_t chunk) const;

 private:
  absl::StatusOr<Inserted> Reserve(int64_t id);
  absl::Status MakeRoom();
  uint64_t TakeRow();

  std::vector<uint64_t> row_bytes_;  // by slot
  absl::flat_hash_map<int64_t, uint64_t> index_;
  std::vector<std::unique_ptr<Chunk>> chunks_;
  std::vector<std::vector<char*>> values_;  // by slot, then by chunk
  uint64_t next_row_ = 0;
  uint64_t free_ = kNoRow;  // the first of a list
};

std::vector<RowBlock::SlotValues> ColumnTable::Columns::slots(
    size_t chunk) const {
  std::vector<RowBlock::SlotValues> slots;
  for (size_t s = 0; s < values_.size(); ++s) {
    slots.push_back({values_[s][chunk], row_bytes_[s]});
  }
  return slots;
}

// Allocates a chunk, with the memory of all slots, unless a row is free.
absl::Status ColumnTable::Columns::MakeRoom() {
  if (free_ != kNoRow || next_row_ < chunks_.size() * kRows) {
    return absl::OkStatus();
  }
  auto chunk = std::make_unique<Chunk>();
  chunk->ids = internal::AllocateArray<int64_t>(kRows);
  bool has_memory = chunk->ids != nullptr;
  for (const uint64_t bytes : row_bytes_) {
    chunk->values.push_back(internal::AllocateArray<char>(kRows * bytes));
    has_memory &= chunk->values.back() != nullptr;
  }
  if (!has_memory) {
    return absl::ResourceExhaustedError(
        absl::StrCat("cannot allocate memory for ", kRows, " more rows"));
  }
  // Calls that may throw come first.
  for (std::vector<char*>& values : values_) {
    values.reserve(std::max(values.capacity(), 2 * (values.size() + 1)));
  }
  chunks_.push_back(std::move(chunk));
  for (size_t s = 0; s < values_.size(); ++s) {
    values_[s].push_back(chunks_.back()->values[s].get());
  }
  return absl::OkStatus();
}

uint64_t ColumnTable::Columns::TakeRow() {
  if (free_ == kNoRow) return next_row_++;
  // Free rows are linked through their ids, which takes no memory. The row that
  // was erased last is used first.
  const uint64_t row = free_;
  free_ = static_cast<uint64_t>(IdOf(row));
  return row;
}

// Does not write the values of a row that is added.
absl::StatusOr<ColumnTable::Inserted> ColumnTable::Columns::Reserve(
    int64_t id) {
  CKPTDB_RETURN_IF_ERROR(MakeRoom());
  // Now TakeRow cannot fail, so if the index throws for lack of memory, the
  // table is unchanged.
  const auto [entry, is_new] = index_.try_emplace(id);
  if (is_new) {
    const uint64_t row = TakeRow();
    entry->second = row;
    Chunk& chunk = *chunks_[row / kRows];
    chunk.ids[row % kRows] = id;
    chunk.live[row % kRows / kWordBits] |= uint64_t{1} << row % kWordBits;
  }
  return Inserted{entry->second, is_new};
}

absl::StatusOr<ColumnTable::Inserted> ColumnTable::Columns::Insert(int64_t id) {
  CKPTDB_ASSIGN_OR_RETURN(const Inserted at, Reserve(id));
  // The memory may be an erased row's.
  for (size_t s = 0; at.is_new && s < values_.size(); ++s) {
    std::memset(ValueOf(s, at.row), 0, row_bytes_[s]);
  }
  return at;
}

absl::Status ColumnTable::Columns::Reserve(absl::Span<const int64_t> ids,
                                           std::vector<Place>* places) {
  places->reserve(places->size() + ids.size());
  for (size_t i = 0; i < ids.size(); ++i) {
    if (i + kAhead < ids.size()) Prefetch(ids[i + kAhead]);
    CKPTDB_ASSIGN_OR_RETURN(const Inserted at, Reserve(ids[i]));
    places->emplace_back(chunks_[at.row / kRows].get(), at.row, at.is_new);
  }
  return absl::OkStatus();
}

// Puts the row at the front of the list of free rows. Its values stay until the
// row is used again.
bool ColumnTable::Columns::Erase(int64_t id) {
  const auto found = index_.find(id);
  if (found == index_.end()) return false;
  const uint64_t row = found->second;
  index_.erase(found);
  Chunk& chunk = *chunks_[row / kRows];
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

// The rows of a save in the columns' memory: a block for each chunk.
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
    for (size_t i = 0; i < ids.size(); ++i) {
      if (i + kAhead < ids.size()) columns_.Prefetch(ids[i + kAhead]);
      const auto row = columns_.Find(ids[i]);
      if (!row.has_value()) {
        return absl::InternalError(absl::StrCat(
            "row ", ids[i], " was marked as upserted but is not in the table"));
      }
      (*marked)[*row / kWordBits].fetch_or(uint64_t{1} << *row % kWordBits,
                                           std::memory_order_relaxed);
    }
    return absl::OkStatus();
  }

  // Lists the rows of a chunk to save, and their ids.
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

// Writes the rows of a restore to the columns. A worker reserves the rows of a
// batch under a lock, because an insertion may grow the index, and copies their
// values concurrently with other workers.
class ColumnTable::LiveRows : public LiveTable {
 public:
  LiveRows(Columns* columns, std::vector<size_t> slots) : columns_(columns) {
    for (const size_t slot : slots) {
      restored_.push_back({slot, columns->row_bytes(slot)});
    }
    for (size_t slot = 0; slot < columns->slot_count(); ++slot) {
      if (std::find(slots.begin(), slots.end(), slot) == slots.end()) {
        others_.push_back({slot, columns->row_bytes(slot)});
      }
    }
  }

  absl::Status Clear() override {
    const internal::MutexLock lock(&mutex_);
    WaitForCopies();
    columns_->Clear();
    return absl::OkStatus();
  }
  absl::Status Consume(int /*worker*/, const RowSink::Batch& batch) override {
    std::vector<Place> places;
    absl::Status reserved = BeginCopy(batch.ids, &places);
    // The rows before one that failed are in the table, so they are written.
    Copy(batch, places);
    EndCopy();
    return reserved;
  }
  absl::Status Erase(int /*worker*/, absl::Span<const int64_t> ids) override {
    const internal::MutexLock lock(&mutex_);
    WaitForCopies();
    for (const int64_t id : ids) columns_->Erase(id);
    return absl::OkStatus();
  }

 private:
  using Place = Columns::Place;
  struct CopiedSlot {
    size_t slot;
    uint64_t row_bytes;
  };
  // Rows with the same stripe share a lock, adjacent rows above all, because a
  // batch usually adds adjacent rows.
  static constexpr uint64_t kStripeRows = 64;
  static constexpr uint64_t kStripes = 256;

  absl::Status BeginCopy(absl::Span<const int64_t> ids,
                         std::vector<Place>* places) {
    const internal::MutexLock lock(&mutex_);
    while (waiting_for_copies_ > 0) changed_.Wait(&mutex_);
    ++copies_;
    return internal::CallGuarded("LiveTable::Consume", [&] {
      mutex_.AssertHeld();
      return columns_->Reserve(ids, places);
    });
  }
  void EndCopy() {
    const internal::MutexLock lock(&mutex_);
    if (--copies_ == 0) changed_.NotifyAll();
  }
  // Waits until no worker copies: the memory of a row that is erased may be
  // given to another row. No copy begins while a caller waits.
  void WaitForCopies() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    ++waiting_for_copies_;
    while (copies_ > 0) changed_.Wait(&mutex_);
    if (--waiting_for_copies_ == 0) changed_.NotifyAll();
  }

  // Returns the end of the rows from `begin` on that lie side by side in one
  // stripe and are all new or all old.
  static size_t EndOfRun(const std::vector<Place>& places, size_t begin) {
    size_t end = begin + 1;
    while (end < places.size() &&
           places[end].row() == places[begin].row() + (end - begin) &&
           places[end].row() % kStripeRows != 0 &&
           places[end].is_new() == places[begin].is_new()) {
      ++end;
    }
    return end;
  }

  // An id may be in the batches of several workers, so rows are written under
  // the lock of their stripe.
  void Copy(const RowSink::Batch& batch, const std::vector<Place>& places) {
    for (size_t begin = 0; begin < places.size();) {
      const Place& first = places[begin];
      const size_t end = EndOfRun(places, begin);
      const internal::MutexLock lock(
          &stripes_[first.row() / kStripeRows % kStripes]);
      for (size_t s = 0; s < restored_.size(); ++s) {
        const auto [slot, bytes] = restored_[s];
        std::memcpy(first.ValueOf(slot, bytes), batch.slots[s] + begin * bytes,
                    (end - begin) * bytes);
      }
      if (first.is_new()) {
        for (const auto& [slot, bytes] : others_) {
          std::memset(first.ValueOf(slot, bytes), 0, (end - begin) * bytes);
        }
      }
      begin = end;
    }
  }

  std::vector<CopiedSlot> restored_;  // in the order of the batches' slots
  std::vector<CopiedSlot> others_;    // zero in rows that are added
  std::array<internal::Mutex, kStripes> stripes_;

  internal::Mutex mutex_;
  Columns* const columns_ ABSL_PT_GUARDED_BY(mutex_);
  int copies_ ABSL_GUARDED_BY(mutex_) = 0;  // batches that are being copied
  int waiting_for_copies_ ABSL_GUARDED_BY(mutex_) = 0;
  internal::ConditionVariable changed_;
};

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
    if (i + kAhead < ids.size()) columns_->Prefetch(ids[i + kAhead]);
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
