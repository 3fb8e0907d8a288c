// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <bit>
#include <limits>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "db/base/mutex.h"
#include "db/row_tracker.h"
#include "db/track/consumer_table.h"
#include "db/track/mark_lane.h"
#include "schema/status.h"

namespace ckptdb {
namespace {

using internal::ConsumerTable;
using internal::TakenSet;

constexpr uint64_t kWordBits = 64;
using Words = std::vector<uint64_t>;

// Returns the number of an id's row, which is beyond all rows for an id before
// the first one.
uint64_t RowOf(int64_t id, int64_t first_id) {
  return static_cast<uint64_t>(id) - static_cast<uint64_t>(first_id);
}

// The ids have been checked against the rows of the table.
void SetBits(absl::Span<const int64_t> ids, int64_t first_id, Words* words) {
  uint64_t* const first = words->data();
  for (const int64_t id : ids) {
    const uint64_t at = RowOf(id, first_id);
    first[at / kWordBits] |= uint64_t{1} << at % kWordBits;
  }
}

size_t CountBits(const Words& words) {
  size_t count = 0;
  for (const uint64_t word : words) {
    count += static_cast<size_t>(std::popcount(word));
  }
  return count;
}

// Returns the ids of the rows that are set in `words`, and clears them.
std::vector<int64_t> TakeIds(int64_t first_id, Words* words) {
  std::vector<int64_t> ids;
  ids.reserve(CountBits(*words));
  for (size_t i = 0; i < words->size(); ++i) {
    for (uint64_t word = std::exchange((*words)[i], 0); word != 0;
         word &= word - 1) {
      const uint64_t row =
          i * kWordBits + static_cast<uint64_t>(std::countr_zero(word));
      ids.push_back(first_id + static_cast<int64_t>(row));
    }
  }
  return ids;
}

}  // namespace

// A mark sets a bit in the bitmap of its thread's lane. A Take moves the marks
// of all lanes into the bitmaps of all consumers, and then empties its
// consumer's bitmap.
class RowBitmap::Impl {
 public:
  Impl(uint64_t rows, int64_t first_id)
      : rows_(rows),
        first_id_(first_id),
        words_((rows + kWordBits - 1) / kWordBits) {}

  absl::StatusOr<ChangeTracker::Consumer> AddConsumer(absl::string_view name);
  absl::Status RemoveConsumer(ChangeTracker::Consumer id);
  absl::Status MarkUpserted(absl::Span<const int64_t> ids);
  absl::StatusOr<ChangeTracker::Changes> Take(ChangeTracker::Consumer id);
  absl::Status Return(ChangeTracker::Consumer id,
                      ChangeTracker::Changes&& changes);
  uint64_t memory_bytes() const;

 private:
  struct alignas(internal::kMarkLaneAlignBytes) Lane {
    mutable internal::Mutex mutex;
    Words marked ABSL_GUARDED_BY(mutex);  // empty before the first mark
  };
  struct Consumer {
    std::string name;
    // Whether the next set is complete, and the reason if it is not.
    bool complete = false;
    std::string reason;
    Words rows;
  };

  absl::Status CheckRows(absl::Span<const int64_t> ids) const;
  void Collect(Lane* lane) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const uint64_t rows_;
  const int64_t first_id_;
  const size_t words_;
  // Locked after mutex_, one at a time.
  std::array<Lane, internal::kMarkLanes> lanes_;
  mutable internal::Mutex mutex_;
  ConsumerTable<Consumer> consumers_ ABSL_GUARDED_BY(mutex_);
};

absl::StatusOr<ChangeTracker::Consumer> RowBitmap::Impl::AddConsumer(
    absl::string_view name) {
  const internal::MutexLock lock(&mutex_);
  return consumers_.Add({std::string(name), false,
                         internal::NewConsumerReason(name), Words(words_)});
}

absl::Status RowBitmap::Impl::RemoveConsumer(ChangeTracker::Consumer id) {
  const internal::MutexLock lock(&mutex_);
  CKPTDB_RETURN_IF_ERROR(consumers_.Find(id).status());
  consumers_.Erase(id);
  return absl::OkStatus();
}

absl::Status RowBitmap::Impl::CheckRows(absl::Span<const int64_t> ids) const {
  for (const int64_t id : ids) {
    if (RowOf(id, first_id_) < rows_) continue;
    return absl::OutOfRangeError(absl::StrCat(
        "row ", id, " is out of range for a table of ", rows_, " rows",
        first_id_ == 0 ? "" : absl::StrCat(" from id ", first_id_)));
  }
  return absl::OkStatus();
}

// Marks in this thread's lane, whose lock few other threads need.
absl::Status RowBitmap::Impl::MarkUpserted(absl::Span<const int64_t> ids) {
  CKPTDB_RETURN_IF_ERROR(CheckRows(ids));
  Lane& lane = lanes_[internal::MarkLaneOfThread()];
  const internal::MutexLock lock(&lane.mutex);
  // A lane without marks has no bitmap.
  if (lane.marked.empty()) lane.marked.resize(words_);
  SetBits(ids, first_id_, &lane.marked);
  return absl::OkStatus();
}

// Moves the marks of a lane to all consumers, so that each consumer receives a
// mark once.
void RowBitmap::Impl::Collect(Lane* lane) {
  const internal::MutexLock lock(&lane->mutex);
  for (size_t i = 0; i < lane->marked.size(); ++i) {
    const uint64_t word = std::exchange(lane->marked[i], 0);
    if (word == 0) continue;
    for (auto& [id, consumer] : consumers_.all()) consumer.rows[i] |= word;
  }
}

absl::StatusOr<ChangeTracker::Changes> RowBitmap::Impl::Take(
    ChangeTracker::Consumer id) {
  const internal::MutexLock lock(&mutex_);
  CKPTDB_ASSIGN_OR_RETURN(Consumer* const consumer, consumers_.Find(id));
  for (Lane& lane : lanes_) Collect(&lane);
  ChangeTracker::Changes changes;
  changes.taken_ = std::make_shared<const TakenSet>(
      TakenSet{this, id, 0, consumer->complete});
  changes.upserted = TakeIds(first_id_, &consumer->rows);
  changes.complete = std::exchange(consumer->complete, true);
  changes.reason = std::exchange(consumer->reason, {});
  // The rows of an incomplete set are meaningless: the caller must write a
  // base.
  if (!changes.complete) changes.upserted = {};
  return changes;
}

absl::Status RowBitmap::Impl::Return(ChangeTracker::Consumer id,
                                     ChangeTracker::Changes&& changes) {
  const internal::MutexLock lock(&mutex_);
  CKPTDB_ASSIGN_OR_RETURN(Consumer* const consumer, consumers_.Find(id));
  const TakenSet* const set = changes.taken_.get();
  CKPTDB_RETURN_IF_ERROR(internal::CheckTakenBy(this, id, set));
  CKPTDB_RETURN_IF_ERROR(CheckRows(changes.upserted));
  SetBits(changes.upserted, first_id_, &consumer->rows);
  // The base that an incomplete set required was not written, so it is required
  // again.
  if (!set->complete && consumer->complete) {
    consumer->complete = false;
    consumer->reason = std::move(changes.reason);
  }
  changes = {};
  return absl::OkStatus();
}

uint64_t RowBitmap::Impl::memory_bytes() const {
  const internal::MutexLock lock(&mutex_);
  size_t words = consumers_.all().size() * words_;
  for (const Lane& lane : lanes_) {
    const internal::MutexLock lane_lock(&lane.mutex);
    words += lane.marked.size();
  }
  return words * sizeof(uint64_t);
}

RowBitmap::RowBitmap(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

RowBitmap::~RowBitmap() = default;

absl::StatusOr<std::unique_ptr<RowBitmap>> RowBitmap::Make(uint64_t rows,
                                                           int64_t first_id) {
  if (rows > kMaxBitmapRows) {
    return absl::InvalidArgumentError(absl::StrCat(
        "a bitmap cannot have ", rows, " rows; the limit is ", kMaxBitmapRows));
  }
  if (first_id > 0 &&
      rows > RowOf(std::numeric_limits<int64_t>::max(), first_id)) {
    return absl::InvalidArgumentError(
        absl::StrCat("the last of ", rows, " rows from id ", first_id,
                     " has no 64-bit id; expected at most ",
                     RowOf(std::numeric_limits<int64_t>::max(), first_id)));
  }
  return std::unique_ptr<RowBitmap>(
      new RowBitmap(std::make_unique<Impl>(rows, first_id)));
}

absl::StatusOr<ChangeTracker::Consumer> RowBitmap::AddConsumer(
    absl::string_view name) {
  return impl_->AddConsumer(name);
}

absl::Status RowBitmap::RemoveConsumer(ChangeTracker::Consumer consumer) {
  return impl_->RemoveConsumer(consumer);
}

absl::Status RowBitmap::MarkUpserted(absl::Span<const int64_t> ids) {
  return impl_->MarkUpserted(ids);
}

absl::StatusOr<ChangeTracker::Changes> RowBitmap::Take(
    ChangeTracker::Consumer consumer) {
  return impl_->Take(consumer);
}

absl::Status RowBitmap::Return(ChangeTracker::Consumer consumer,
                               ChangeTracker::Changes&& changes) {
  return impl_->Return(consumer, std::move(changes));
}

uint64_t RowBitmap::memory_bytes() const { return impl_->memory_bytes(); }

}  // namespace ckptdb
