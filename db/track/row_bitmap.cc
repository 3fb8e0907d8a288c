// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <bit>
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

// The rows have been checked against the size of the table.
void SetBits(absl::Span<const int64_t> rows, Words* words) {
  uint64_t* const first = words->data();
  for (const int64_t row : rows) {
    const auto at = static_cast<uint64_t>(row);
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

// Appends the rows that are set in `words` and clears them.
std::vector<int64_t> TakeRows(Words* words) {
  std::vector<int64_t> rows;
  rows.reserve(CountBits(*words));
  for (size_t i = 0; i < words->size(); ++i) {
    for (uint64_t word = std::exchange((*words)[i], 0); word != 0;
         word &= word - 1) {
      const uint64_t row =
          i * kWordBits + static_cast<uint64_t>(std::countr_zero(word));
      rows.push_back(static_cast<int64_t>(row));
    }
  }
  return rows;
}

}  // namespace

// A mark sets a bit in the bitmap of its thread's lane. A Take moves the marks
// of all lanes into the bitmaps of all consumers, and then empties its
// consumer's bitmap.
class RowBitmap::Impl {
 public:
  explicit Impl(uint64_t rows)
      : rows_(rows), words_((rows + kWordBits - 1) / kWordBits) {}

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
    if (static_cast<uint64_t>(id) < rows_) continue;
    return absl::OutOfRangeError(absl::StrCat(
        "row ", id, " is out of range for a table of ", rows_, " rows"));
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
  SetBits(ids, &lane.marked);
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
  changes.upserted = TakeRows(&consumer->rows);
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
  SetBits(changes.upserted, &consumer->rows);
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

absl::StatusOr<std::unique_ptr<RowBitmap>> RowBitmap::Make(uint64_t rows) {
  if (rows > kMaxBitmapRows) {
    return absl::InvalidArgumentError(absl::StrCat(
        "a bitmap cannot have ", rows, " rows; the limit is ", kMaxBitmapRows));
  }
  return std::unique_ptr<RowBitmap>(
      new RowBitmap(std::make_unique<Impl>(rows)));
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
