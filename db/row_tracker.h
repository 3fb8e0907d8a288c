// SPDX-License-Identifier: Apache-2.0
// Trackers of the rows of a table that changed since the last committed save,
// so that a delta save writes only those: RowTracker for sparse tables,
// RowBitmap for tables whose rows are 0 to n - 1.
//
//   RowTracker tracker;
//   CKPTDB_ASSIGN_OR_RETURN(const ChangeTracker::Consumer saves,
//                           tracker.AddConsumer("checkpoint"));
//   tracker.MarkUpserted(ids_of_the_batch);  // from the trainer's threads
//
//   CKPTDB_ASSIGN_OR_RETURN(auto changes, tracker.Take(saves));
//   const absl::Status saved =
//       changes.complete ? SaveDelta(changes) : SaveBase();
//   if (!saved.ok()) {
//     CKPTDB_RETURN_IF_ERROR(tracker.Return(saves, std::move(changes)));
//   }
//
// A consumer uses the changes: checkpoints, or a serving feed. Each has an
// independent position in the marks.
//
// Guarantees, for each consumer
// 1. A mark is in the set of the next Take, or that set is not complete. A mark
//    made during a Take is in that set or the next one.
// 2. An id is in a set once, under its newest mark. Of concurrent marks of one
//    id, either may be the newer.
// 3. A returned set is part of the next Take's set, except for ids marked again
//    since, which have the newer mark.
// 4. A new consumer's first set is not complete, because earlier changes are
//    unknown. After returning an incomplete set, the next one is incomplete.
//
// Mark a row after changing its value, and read the values of a set after its
// Take: then no change is missed.
//
// A set belongs to the consumer until it is returned, or destroyed, which means
// that it was saved. If a consumer takes several sets and returns an older one,
// the next set repeats the later ones' rows. That is harmless, because current
// values are read.
//
// Both classes are thread-safe. A set is not, and does not need its tracker.
#ifndef CKPTDB_DB_ROW_TRACKER_H_
#define CKPTDB_DB_ROW_TRACKER_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace ckptdb {

namespace internal {
struct TakenSet;
}  // namespace internal

// The interface of a tracker of the changed rows of a table.
class ChangeTracker {
 public:
  // A consumer of one tracker.
  struct Consumer {
    uint32_t value = 0;
    bool operator==(const Consumer&) const = default;
  };

  // The rows that changed for one consumer between two Takes. Only movable,
  // because a set is either saved or returned.
  class Changes {
   public:
    Changes() = default;
    Changes(Changes&&) = default;
    Changes& operator=(Changes&&) = default;

    // Unordered and distinct, within and across both lists. Empty if the set is
    // not complete.
    std::vector<int64_t> upserted;
    std::vector<int64_t> erased;
    // False if more changed than is known: save all rows.
    bool complete = true;
    // Why it is not complete.
    std::string reason;

    // For trackers that add to the sets of another tracker: identifies this
    // set. Null if no tracker made it.
    const std::shared_ptr<const internal::TakenSet>& taken() const {
      return taken_;
    }

   private:
    friend class RowTracker;
    friend class RowBitmap;

    std::shared_ptr<const internal::TakenSet> taken_;
  };

  virtual ~ChangeTracker() = default;

  // Adds a consumer. Returns InvalidArgument for an empty name and
  // AlreadyExists for one that is taken.
  virtual absl::StatusOr<Consumer> AddConsumer(absl::string_view name) = 0;
  // Removes a consumer, and the marks kept for it. Returns NotFound for an
  // unknown one.
  virtual absl::Status RemoveConsumer(Consumer consumer) = 0;

  // Returns all marks since the consumer's last Take, and those returned.
  // Returns NotFound for an unknown consumer.
  [[nodiscard]] virtual absl::StatusOr<Changes> Take(Consumer consumer) = 0;

  // Takes back the unchanged set of a failed save. Returns NotFound for an
  // unknown consumer and InvalidArgument for a set that Take did not return to
  // this consumer; `changes` is then unchanged.
  virtual absl::Status Return(Consumer consumer, Changes&& changes) = 0;
};

// A tracker of marks of any int64 ids.
//
// A mark is appended to a log, unless the thread marked the id recently. Take
// cuts the log, and sorts the part before the cut while trainers keep marking.
//
// `ckptdb_bench marks` measures the costs: a few nanoseconds per mark, in
// batches of some thousand ids, while other threads mark too. A Take takes 10
// to 20 nanoseconds, and temporarily 8 bytes beyond the set and the bound, for
// each mark since the last one. A mark that finds the log full of duplicates
// first merges them, at the cost of a Take.
class RowTracker : public ChangeTracker {
 public:
  struct Options {
    // The maximum memory of marks, 8 bytes for each mark and each row of a
    // returned set. At the bound, marks of the same id are merged: max_bytes /
    // 16 different ids always fit, max_bytes / 8 never do; 67 and 134 million
    // by default. Beyond that all marks are dropped, and each consumer's next
    // set is incomplete, which costs a full save. At least 1 MiB is sensible.
    // Default: 1 GiB.
    uint64_t max_bytes = uint64_t{1} << 30;
  };

  RowTracker();
  explicit RowTracker(const Options& options);
  ~RowTracker() override;
  RowTracker(const RowTracker&) = delete;
  RowTracker& operator=(const RowTracker&) = delete;

  absl::StatusOr<Consumer> AddConsumer(absl::string_view name) override;
  absl::Status RemoveConsumer(Consumer consumer) override;

  // Marks ids. The later of two marks of one id by one thread, also within a
  // batch, is the newer. Marks are skipped while the next sets of all consumers
  // are incomplete.
  void MarkUpserted(absl::Span<const int64_t> ids);
  void MarkErased(absl::Span<const int64_t> ids);

  [[nodiscard]] absl::StatusOr<Changes> Take(Consumer consumer) override;
  absl::Status Return(Consumer consumer, Changes&& changes) override;

  // Returns the memory of the log, filters, returned sets, and buffers kept for
  // the next interval.
  uint64_t memory_bytes() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

inline constexpr uint64_t kMaxBitmapRows = uint64_t{1} << 36;

// A tracker of marks of rows 0 to rows - 1, which are never erased. Takes one
// bit per row for each consumer, and for each of up to eight threads that mark;
// Take reads all of them. It never drops marks.
class RowBitmap : public ChangeTracker {
 public:
  // Returns InvalidArgument for more than kMaxBitmapRows.
  static absl::StatusOr<std::unique_ptr<RowBitmap>> Make(uint64_t rows);
  ~RowBitmap() override;
  RowBitmap(const RowBitmap&) = delete;
  RowBitmap& operator=(const RowBitmap&) = delete;

  absl::StatusOr<Consumer> AddConsumer(absl::string_view name) override;
  absl::Status RemoveConsumer(Consumer consumer) override;

  // Returns OutOfRange naming the first id that is not a row, and then marks
  // nothing.
  absl::Status MarkUpserted(absl::Span<const int64_t> ids);

  // `upserted` is ascending, `erased` empty.
  [[nodiscard]] absl::StatusOr<Changes> Take(Consumer consumer) override;
  // Also returns OutOfRange for an id that is not a row.
  absl::Status Return(Consumer consumer, Changes&& changes) override;

  uint64_t memory_bytes() const;

 private:
  class Impl;
  explicit RowBitmap(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace ckptdb

#endif  // CKPTDB_DB_ROW_TRACKER_H_
