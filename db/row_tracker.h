// SPDX-License-Identifier: Apache-2.0
// Trackers of the rows of a table that changed since the last save, so that a
// delta save writes only those: RowTracker for sparse tables, RowBitmap for
// tables whose rows are 0 to n - 1.
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
// Each consumer, such as checkpoints or a serving feed, has its own position in
// the marks. Guarantees, for each:
// 1. A mark is in the set of the next Take, or that set is not complete. A mark
//    made during a Take is in that set or the next one.
// 2. An id is in a set once, under its newest mark. Of concurrent marks of one
//    id, either may be the newer.
// 3. A returned set is part of the next Take's set, except for ids marked again
//    since, which have the newer mark.
// 4. A new consumer's first set, and the one after an incomplete set was
//    returned, are not complete.
//
// Mark a row after changing its value, and read the values of a set after its
// Take. A set that is destroyed counts as saved. If an older of several sets is
// returned, the next set repeats the later ones' rows, which is harmless.
//
// The trackers are thread-safe. A set is not, and does not need its tracker.
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

// The interface of the trackers.
class ChangeTracker {
 public:
  // A consumer of one tracker.
  struct Consumer {
    uint32_t value = 0;
    bool operator==(const Consumer&) const = default;
  };

  // The rows that changed for one consumer between two Takes.
  class Changes {
   public:
    Changes() = default;
    Changes(Changes&&) = default;
    Changes& operator=(Changes&&) = default;

    // Unordered, and distinct across both lists. Empty if not `complete`.
    std::vector<int64_t> upserted;
    std::vector<int64_t> erased;
    // If false, more changed than is known: save all rows.
    bool complete = true;
    // Why the set is not complete.
    std::string reason;

    // Identifies the set, for trackers that add to another tracker's sets. Null
    // if no tracker made it.
    const std::shared_ptr<const internal::TakenSet>& taken() const {
      return taken_;
    }

   private:
    friend class RowTracker;
    friend class RowBitmap;

    std::shared_ptr<const internal::TakenSet> taken_;
  };

  virtual ~ChangeTracker() = default;

  // Returns InvalidArgument for an empty name and AlreadyExists for a known
  // one.
  virtual absl::StatusOr<Consumer> AddConsumer(absl::string_view name) = 0;
  // Also drops the marks kept for it. Returns NotFound for an unknown consumer,
  // as do the calls below.
  virtual absl::Status RemoveConsumer(Consumer consumer) = 0;

  // Returns the marks since the consumer's last Take, and those returned. After
  // an error, the next Take returns them.
  [[nodiscard]] virtual absl::StatusOr<Changes> Take(Consumer consumer) = 0;

  // Takes back the unchanged set of a failed save. Returns InvalidArgument,
  // leaving `changes`, for a set that Take did not return to this consumer.
  virtual absl::Status Return(Consumer consumer, Changes&& changes) = 0;
};

// A tracker of marks of any ids. A mark costs a few nanoseconds in batches of
// some thousand ids, also from several threads; a Take 10 to 20 nanoseconds,
// and temporarily 8 bytes, for each mark since the last one
// (docs/performance.md).
class RowTracker : public ChangeTracker {
 public:
  // `max_bytes`, at least 1 MiB, bounds the memory of marks: 8 bytes for each,
  // and for each row of a returned set. At the bound, marks of the same id are
  // merged: max_bytes / 16 different ids always fit, max_bytes / 8 never do.
  // Beyond that all marks are dropped, and each consumer's next set is
  // incomplete, which costs a full save.
  explicit RowTracker(uint64_t max_bytes = uint64_t{1} << 30);
  ~RowTracker() override;

  absl::StatusOr<Consumer> AddConsumer(absl::string_view name) override;
  absl::Status RemoveConsumer(Consumer consumer) override;

  // If one thread marks an id twice, the later mark counts. Marks are
  // skipped while the next sets of all consumers are incomplete.
  void MarkUpserted(absl::Span<const int64_t> ids);
  void MarkErased(absl::Span<const int64_t> ids);

  [[nodiscard]] absl::StatusOr<Changes> Take(Consumer consumer) override;
  absl::Status Return(Consumer consumer, Changes&& changes) override;

  // Includes returned sets, and buffers kept for the next interval.
  uint64_t memory_bytes() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

inline constexpr uint64_t kMaxBitmapRows = uint64_t{1} << 36;

// A tracker of marks of rows first_id to first_id + rows - 1, which are never
// erased. Takes one bit per row for each consumer, and for each of up to eight
// threads that mark; Take reads all of them. It never drops marks.
class RowBitmap : public ChangeTracker {
 public:
  // Returns InvalidArgument for more than kMaxBitmapRows, and for ids beyond
  // int64.
  static absl::StatusOr<std::unique_ptr<RowBitmap>> Make(uint64_t rows,
                                                         int64_t first_id = 0);
  ~RowBitmap() override;

  absl::StatusOr<Consumer> AddConsumer(absl::string_view name) override;
  absl::Status RemoveConsumer(Consumer consumer) override;

  // Returns OutOfRange naming the first id that is not a row, and marks
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
