// SPDX-License-Identifier: Apache-2.0
#include "db/row_tracker.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <map>
#include <optional>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "db/base/mutex.h"
#include "db/track/consumer_table.h"
#include "db/track/mark_filter.h"
#include "db/track/mark_hash.h"
#include "db/track/mark_lane.h"
#include "db/track/mark_log.h"
#include "db/track/newest_marks.h"
#include "schema/status.h"

namespace ckptdb {
namespace {

using internal::ConsumerTable;
using internal::MarkFilter;
using internal::MarkGroup;
using internal::MarkKind;
using internal::MarkLog;
using internal::MarkRun;
using internal::NewestMarks;
using internal::SpreadId;
using internal::TakenSet;

using Hashes = std::vector<uint64_t>;

// Marks are kept as hashes, which spread ids evenly and are invertible
// (SpreadId, UnspreadId).
Hashes HashesOf(absl::Span<const int64_t> ids) {
  Hashes hashes(ids.size());
  for (size_t i = 0; i < ids.size(); ++i) hashes[i] = SpreadId(ids[i]);
  return hashes;
}

struct ReturnedSet {
  Hashes upserted;
  Hashes erased;

  uint64_t bytes() const {
    return (upserted.capacity() + erased.capacity()) * sizeof(uint64_t);
  }
};

// The returned sets by epoch.
using ReturnedSets = std::map<uint64_t, ReturnedSet>;

// Returns groups from the newest to the oldest. A set contains the newest marks
// up to its epoch.
MarkGroup PiecesOf(const std::vector<MarkRun>& runs,
                   const ReturnedSets& returned) {
  MarkGroup pieces;
  auto run = runs.rbegin();
  const auto add_runs_after = [&](uint64_t epoch) {
    for (; run != runs.rend() && run->epoch > epoch; ++run) {
      pieces.push_back({run->hashes, run->kind});
    }
  };
  for (auto set = returned.rbegin(); set != returned.rend(); ++set) {
    add_runs_after(set->first);
    pieces.push_back({set->second.upserted, MarkKind::kUpserted});
    pieces.push_back({set->second.erased, MarkKind::kErased});
  }
  add_runs_after(0);
  return pieces;
}

}  // namespace

// Marks are made in batches of kMarkRows under the lock of a lane. The log's
// lock only covers reserving space for marks that the lane's filter does not
// know. An id that a filter knows has an upsert as its newest mark, which has
// been in the log since the last Take of any consumer. To preserve that,
// erasures, Takes, and all code that reads or drops marks of the log hold all
// lanes.
constexpr size_t kMarkRows = 2048;

class RowTracker::Impl {
 public:
  explicit Impl(uint64_t max_bytes) : max_bytes_(max_bytes) {
    // All filters together get an eighth, and the log gets the rest.
    LaneLocks(&lanes_).ForEachFilter([&](MarkFilter* filter) {
      filter->LimitBytes(max_bytes_ / 8 / lanes_.size());
    });
  }

  absl::StatusOr<ChangeTracker::Consumer> AddConsumer(absl::string_view name);
  absl::Status RemoveConsumer(ChangeTracker::Consumer id);
  void MarkUpserted(absl::Span<const int64_t> ids);
  void MarkErased(absl::Span<const int64_t> ids);
  absl::StatusOr<ChangeTracker::Changes> Take(ChangeTracker::Consumer id);
  absl::Status Return(ChangeTracker::Consumer id,
                      ChangeTracker::Changes&& changes);
  uint64_t memory_bytes() const;

 private:
  struct alignas(internal::kMarkLaneAlignBytes) Lane {
    internal::Mutex mutex;
    MarkFilter filter ABSL_GUARDED_BY(mutex);
  };
  using Lanes = std::array<Lane, internal::kMarkLanes>;

  // Holds all lanes. The analysis cannot follow locks taken in a loop, so it is
  // disabled here, and code that needs a lane's lock calls AssertHeld.
  class LaneLocks {
   public:
    explicit LaneLocks(Lanes* lanes) ABSL_NO_THREAD_SAFETY_ANALYSIS
        : lanes_(lanes) {
      for (Lane& lane : *lanes_) lane.mutex.Lock();
    }
    ~LaneLocks() ABSL_NO_THREAD_SAFETY_ANALYSIS {
      for (Lane& lane : *lanes_) lane.mutex.Unlock();
    }
    LaneLocks(const LaneLocks&) = delete;
    LaneLocks& operator=(const LaneLocks&) = delete;

    template <typename Function>
    void ForEachFilter(Function&& visit) const {
      for (Lane& lane : *lanes_) {
        lane.mutex.AssertHeld();
        visit(&lane.filter);
      }
    }

   private:
    Lanes* const lanes_;
  };

  struct Consumer {
    std::string name;
    // Whether the next set is complete, and the reason if it is not.
    bool complete = false;
    std::string reason;
    // Marks up to this epoch were taken, or are in a returned set.
    uint64_t epoch = 0;
    // Epoch of the last incomplete set: the base that it required contains the
    // marks of older sets.
    uint64_t base_epoch = 0;
    ReturnedSets returned;
  };

  // The state that a Take reads after releasing the locks.
  struct Snapshot {
    std::vector<MarkRun> runs;
    ReturnedSets returned;
  };

  size_t Filter(Lane* lane, absl::Span<const int64_t> ids, uint64_t* unknown)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(lane->mutex);
  // Returns false if the call needs all lanes.
  bool MarkInLane(Lane* lane, absl::Span<const int64_t> ids);
  bool AppendInLane(absl::Span<const uint64_t> hashes);
  std::optional<internal::MarkRoom> Reserve(
      size_t rows, internal::MarkSample::Hashes* selected);
  // The caller holds all lanes.
  void Mark(MarkKind kind, absl::Span<const int64_t> ids);

  // The caller of the following also holds all lanes, except for constant
  // members.
  absl::Status Cut(ChangeTracker::Consumer id, ChangeTracker::Changes* changes,
                   Snapshot* snapshot) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void PutBack(Consumer* consumer, const ChangeTracker::Changes& changes)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void RequireBase(Consumer* consumer, const std::string& reason)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void ForgetReturned(Consumer* consumer) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Returns the epochs that the log may be read from, ascending.
  std::vector<uint64_t> Cuts() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool MayBeReturned(const TakenSet& set) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Called after a change of the consumers or of their epochs.
  void DropUnneeded() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Merge() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Makes space for an append, if any. Returns false if all marks were dropped
  // instead.
  bool MakeRoom(MarkKind kind, size_t rows)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void DropAll() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Returns the bytes that cannot be dropped, including such an append.
  uint64_t UsedBytes() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  uint64_t BytesAfter(MarkKind kind, size_t rows) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const uint64_t max_bytes_;
  Lanes lanes_;  // locked in this order
  std::atomic<uint64_t> filter_bytes_{0};
  // True if a consumer needs marks.
  std::atomic<bool> tracking_{false};

  mutable internal::Mutex mutex_;  // after those of the lanes
  MarkLog log_ ABSL_GUARDED_BY(mutex_);
  // The epoch of new marks; a Take ends it.
  uint64_t epoch_ ABSL_GUARDED_BY(mutex_) = 1;
  ConsumerTable<Consumer> consumers_ ABSL_GUARDED_BY(mutex_);
  uint64_t returned_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  std::vector<std::weak_ptr<const TakenSet>> taken_ ABSL_GUARDED_BY(mutex_);
};

absl::StatusOr<ChangeTracker::Consumer> RowTracker::Impl::AddConsumer(
    absl::string_view name) {
  const internal::MutexLock lock(&mutex_);
  Consumer consumer;
  consumer.name = std::string(name);
  consumer.reason = internal::NewConsumerReason(name);
  return consumers_.Add(std::move(consumer));
}

absl::Status RowTracker::Impl::RemoveConsumer(ChangeTracker::Consumer id) {
  const LaneLocks locks(&lanes_);
  const internal::MutexLock lock(&mutex_);
  CKPTDB_ASSIGN_OR_RETURN(Consumer* const consumer, consumers_.Find(id));
  ForgetReturned(consumer);
  consumers_.Erase(id);
  DropUnneeded();
  return absl::OkStatus();
}

void RowTracker::Impl::MarkUpserted(absl::Span<const int64_t> ids) {
  // No consumer needs marks: the next set of each is incomplete anyway, and
  // requires a base.
  if (!tracking_.load()) return;
  Lane& lane = lanes_[internal::MarkLaneOfThread()];
  for (; !ids.empty(); ids.remove_prefix(std::min(ids.size(), kMarkRows))) {
    const absl::Span<const int64_t> piece = ids.subspan(0, kMarkRows);
    if (MarkInLane(&lane, piece)) continue;
    const LaneLocks locks(&lanes_);
    Mark(MarkKind::kUpserted, piece);
  }
}

// Marks rows under the lane's lock. Returns false if the log has no space or is
// worth a merge, for which all lanes are needed.
bool RowTracker::Impl::MarkInLane(Lane* lane, absl::Span<const int64_t> ids) {
  const internal::MutexLock lock(&lane->mutex);
  std::array<uint64_t, kMarkRows> unknown;
  const size_t count = Filter(lane, ids, unknown.data());
  if (AppendInLane({unknown.data(), count})) return true;
  lane->filter.Clear();  // it knows ids that are no longer in the log
  return false;
}

// Writes hashes to reserved space without the log's lock, so that threads fill
// the log in parallel.
bool RowTracker::Impl::AppendInLane(absl::Span<const uint64_t> hashes) {
  auto selected = internal::MarkSample::Select(hashes);
  while (!hashes.empty()) {
    const auto room = Reserve(hashes.size(), &selected);
    if (!room.has_value()) return false;
    hashes.remove_prefix(room->Fill(hashes));
  }
  return true;
}

// Reserves space under the log's lock. Returns nothing if that requires a
// merge, or if marks are no longer needed.
std::optional<internal::MarkRoom> RowTracker::Impl::Reserve(
    size_t rows, internal::MarkSample::Hashes* selected) {
  const internal::MutexLock lock(&mutex_);
  if (!tracking_.load() || log_.WorthMerging() ||
      BytesAfter(MarkKind::kUpserted, rows) > max_bytes_) {
    return std::nullopt;
  }
  log_.Sample(*selected);
  selected->clear();
  internal::MarkRoom room = log_.Reserve(epoch_, MarkKind::kUpserted, rows);
  log_.KeepAtMost(max_bytes_ - UsedBytes());
  return room;
}

void RowTracker::Impl::MarkErased(absl::Span<const int64_t> ids) {
  if (ids.empty() || !tracking_.load()) return;
  const LaneLocks locks(&lanes_);
  // An id that a filter knows would not be logged if it were upserted again,
  // and the erasure would remain its newest mark.
  locks.ForEachFilter([&](MarkFilter* filter) { filter->Forget(ids); });
  Mark(MarkKind::kErased, ids);
}

// Appends marks with all lanes held; merges or drops marks if there is no
// space.
void RowTracker::Impl::Mark(MarkKind kind, absl::Span<const int64_t> ids) {
  const internal::MutexLock lock(&mutex_);
  for (; !ids.empty(); ids.remove_prefix(std::min(ids.size(), kMarkRows))) {
    const Hashes hashes = HashesOf(ids.subspan(0, kMarkRows));
    if (!tracking_.load() || !MakeRoom(kind, hashes.size())) return;
    log_.Append(epoch_, kind, hashes);
  }
}

size_t RowTracker::Impl::Filter(Lane* lane, absl::Span<const int64_t> ids,
                                uint64_t* unknown) {
  const size_t old_bytes = lane->filter.bytes();
  const size_t count = lane->filter.Keep(ids, unknown);
  filter_bytes_ += lane->filter.bytes() - old_bytes;
  return count;
}

absl::StatusOr<ChangeTracker::Changes> RowTracker::Impl::Take(
    ChangeTracker::Consumer id) {
  ChangeTracker::Changes changes;
  Snapshot snapshot;
  {
    const LaneLocks locks(&lanes_);
    const internal::MutexLock lock(&mutex_);
    CKPTDB_RETURN_IF_ERROR(Cut(id, &changes, &snapshot));
    locks.ForEachFilter([](MarkFilter* filter) { filter->Clear(); });
  }
  // The ids are computed after the locks were released: the runs keep their
  // chunks, whose content no longer changes.
  if (changes.complete) {
    const MarkGroup pieces = PiecesOf(snapshot.runs, snapshot.returned);
    const NewestMarks newest({pieces});
    changes.upserted = newest.Ids(0, MarkKind::kUpserted);
    changes.erased = newest.Ids(0, MarkKind::kErased);
  }
  snapshot = {};
  const internal::MutexLock lock(&mutex_);
  log_.KeepWhatWasNeeded();
  return changes;
}

// Ends the epoch for a consumer, and determines the content of its set.
absl::Status RowTracker::Impl::Cut(ChangeTracker::Consumer id,
                                   ChangeTracker::Changes* changes,
                                   Snapshot* snapshot) {
  CKPTDB_ASSIGN_OR_RETURN(Consumer* const consumer, consumers_.Find(id));
  const auto set = std::make_shared<const TakenSet>(
      TakenSet{this, id, epoch_, consumer->complete});
  changes->taken_ = set;
  changes->complete = consumer->complete;
  changes->reason = std::exchange(consumer->reason, {});
  if (consumer->complete) {
    snapshot->runs = log_.After(consumer->epoch);
    snapshot->returned = std::exchange(consumer->returned, {});
    for (const auto& [epoch, returned] : snapshot->returned) {
      returned_bytes_ -= returned.bytes();
    }
  } else {
    consumer->complete = true;
    consumer->base_epoch = epoch_;
  }
  consumer->epoch = epoch_++;
  // The log keeps the marks after this set as long as the caller holds it: if
  // it is returned, they are read again.
  taken_.push_back(set);
  DropUnneeded();
  return absl::OkStatus();
}

absl::Status RowTracker::Impl::Return(ChangeTracker::Consumer id,
                                      ChangeTracker::Changes&& changes) {
  const LaneLocks locks(&lanes_);
  const internal::MutexLock lock(&mutex_);
  CKPTDB_ASSIGN_OR_RETURN(Consumer* const consumer, consumers_.Find(id));
  CKPTDB_RETURN_IF_ERROR(
      internal::CheckTakenBy(this, id, changes.taken_.get()));
  PutBack(consumer, changes);
  changes = {};
  DropUnneeded();
  // The returned set counts against the limit.
  MakeRoom(MarkKind::kUpserted, 0);
  return absl::OkStatus();
}

void RowTracker::Impl::PutBack(Consumer* consumer,
                               const ChangeTracker::Changes& changes) {
  const TakenSet* const set = changes.taken_.get();
  if (!set->complete) return RequireBase(consumer, changes.reason);
  // A base that was required since then contains these rows.
  if (!consumer->complete || set->epoch < consumer->base_epoch) return;
  // Later sets are read again from the log, so that newer marks win over the
  // returned ones.
  consumer->epoch = std::min(consumer->epoch, set->epoch);
  ReturnedSet& returned = consumer->returned[set->epoch];
  returned = {HashesOf(changes.upserted), HashesOf(changes.erased)};
  returned_bytes_ += returned.bytes();
}

void RowTracker::Impl::RequireBase(Consumer* consumer,
                                   const std::string& reason) {
  if (!consumer->complete) return;
  ForgetReturned(consumer);
  consumer->complete = false;
  consumer->reason = reason;
}

void RowTracker::Impl::ForgetReturned(Consumer* consumer) {
  for (const auto& [epoch, set] : consumer->returned) {
    returned_bytes_ -= set.bytes();
  }
  consumer->returned.clear();
}

std::vector<uint64_t> RowTracker::Impl::Cuts() {
  std::vector<uint64_t> cuts;
  for (const auto& [id, consumer] : consumers_.all()) {
    if (consumer.complete) cuts.push_back(consumer.epoch);
  }
  std::erase_if(taken_, [](const auto& set) { return set.expired(); });
  for (const auto& taken : taken_) {
    const std::shared_ptr<const TakenSet> set = taken.lock();
    if (set != nullptr && MayBeReturned(*set)) cuts.push_back(set->epoch);
  }
  std::sort(cuts.begin(), cuts.end());
  return cuts;
}

// Returns whether returning this set would require reading the log from its
// epoch.
bool RowTracker::Impl::MayBeReturned(const TakenSet& set) {
  const absl::StatusOr<Consumer*> consumer = consumers_.Find(set.consumer);
  return set.complete && consumer.ok() && (*consumer)->complete &&
         set.epoch > (*consumer)->base_epoch;
}

// Drops marks up to the oldest epoch from which the log may still be read.
void RowTracker::Impl::DropUnneeded() {
  const std::vector<uint64_t> cuts = Cuts();
  tracking_ = !cuts.empty();
  if (cuts.empty()) {
    log_.Clear();
  } else {
    log_.DropUpTo(cuts.front());
  }
}

// Drops unneeded marks first, so that they are not merged.
void RowTracker::Impl::Merge() {
  DropUnneeded();
  log_.Merge(Cuts());
}

uint64_t RowTracker::Impl::BytesAfter(MarkKind kind, size_t rows) const {
  return UsedBytes() + (rows == 0 ? 0 : log_.BytesToAppend(epoch_, kind, rows));
}

bool RowTracker::Impl::MakeRoom(MarkKind kind, size_t rows) {
  const uint64_t max_bytes = max_bytes_;
  const bool full = BytesAfter(kind, rows) > max_bytes;
  if (full || log_.WorthMerging()) Merge();
  // Merges to at most half of the limit, so that the next merge is far away.
  if (full && (BytesAfter(kind, rows) > max_bytes ||
               log_.rows() * sizeof(uint64_t) > max_bytes / 2)) {
    DropAll();
    return false;
  }
  log_.KeepAtMost(max_bytes - BytesAfter(kind, rows));
  return true;
}

// Drops all marks: each consumer then needs a base. Training continues, and no
// mark is lost silently.
void RowTracker::Impl::DropAll() {
  const std::string reason = absl::StrCat(
      "the tracker exceeded its memory limit of ", max_bytes_, " bytes");
  for (auto& [id, consumer] : consumers_.all()) RequireBase(&consumer, reason);
  DropUnneeded();
  log_.KeepAtMost(0);
}

uint64_t RowTracker::Impl::UsedBytes() const {
  return log_.used_bytes() + filter_bytes_.load() + returned_bytes_;
}

uint64_t RowTracker::Impl::memory_bytes() const {
  const internal::MutexLock lock(&mutex_);
  return UsedBytes() + log_.kept_bytes();
}

RowTracker::RowTracker(uint64_t max_bytes)
    : impl_(std::make_unique<Impl>(max_bytes)) {}

RowTracker::~RowTracker() = default;

absl::StatusOr<ChangeTracker::Consumer> RowTracker::AddConsumer(
    absl::string_view name) {
  return impl_->AddConsumer(name);
}

absl::Status RowTracker::RemoveConsumer(ChangeTracker::Consumer consumer) {
  return impl_->RemoveConsumer(consumer);
}

void RowTracker::MarkUpserted(absl::Span<const int64_t> ids) {
  impl_->MarkUpserted(ids);
}

void RowTracker::MarkErased(absl::Span<const int64_t> ids) {
  impl_->MarkErased(ids);
}

absl::StatusOr<ChangeTracker::Changes> RowTracker::Take(
    ChangeTracker::Consumer consumer) {
  return impl_->Take(consumer);
}

absl::Status RowTracker::Return(ChangeTracker::Consumer consumer,
                                ChangeTracker::Changes&& changes) {
  return impl_->Return(consumer, std::move(changes));
}

uint64_t RowTracker::memory_bytes() const { return impl_->memory_bytes(); }

}  // namespace ckptdb
