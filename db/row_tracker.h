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
// A consumer is a user of the changes, such as checkpoints or a serving feed.
// Each has its own position in the marks, independent of the others.
//
// Guarantees, for each consumer
// 1. A mark is in the set of the Take that follows it, or that set says that
//    it is not complete. A mark made while a Take runs is in that set or in
//    the next one.
// 2. An id is in a set once, under its newest mark. Of marks of the same id
//    that different threads make at the same time either may be the newer one.
// 3. A set that was returned is in the set of the next Take again, except for
//    ids that were marked anew since it was taken: these come with the newer
//    mark.
// 4. A new consumer's first set is not complete: what changed before is not
//    known. When a set that is not complete is returned, the next one is not
//    complete either.
//
// Mark a row after its value has changed, and read the values of a set after
// its Take: then no change is missed.
//
// A set belongs to the consumer until it is returned or destroyed; destroying
// it means that it was saved. When several sets of a consumer are taken and an
// older one is returned, the next set also has the rows of the later ones
// again, which does no harm, as their current values are read.
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

  // The rows that changed for one consumer between two Takes. It can be moved
  // but not copied, as it is either saved or returned.
  class Changes {
   public:
    Changes() = default;
    Changes(Changes&&) = default;
    Changes& operator=(Changes&&) = default;

    // The ids are in no order, none is in both lists and none is twice in one.
    // Both are empty if the set is not complete.
    std::vector<int64_t> upserted;
    std::vector<int64_t> erased;
    // False if more changed than is known: save all rows, as a base.
    bool complete = true;
    // The reason why it is not complete.
    std::string reason;

    // Returns what identifies this set as long as it is there, for a tracker
    // that adds to the sets of another one. Null: no tracker has made it.
    const std::shared_ptr<const internal::TakenSet>& taken() const {
      return taken_;
    }

   private:
    friend class RowTracker;
    friend class RowBitmap;

    // Identifies this set to the tracker.
    std::shared_ptr<const internal::TakenSet> taken_;
  };

  virtual ~ChangeTracker() = default;

  // Adds a consumer. Returns InvalidArgument for an empty name and
  // AlreadyExists for one that is taken.
  virtual absl::StatusOr<Consumer> AddConsumer(absl::string_view name) = 0;
  // Removes a consumer. The marks that it has not taken are kept until then.
  // Returns NotFound for an unknown one.
  virtual absl::Status RemoveConsumer(Consumer consumer) = 0;

  // Returns all marks since the consumer's last Take, and those that were
  // returned. Returns NotFound for an unknown consumer.
  [[nodiscard]] virtual absl::StatusOr<Changes> Take(Consumer consumer) = 0;

  // Takes back a set whose save failed. Its lists must be as they were. Returns
  // NotFound for an unknown consumer and InvalidArgument for a set that Take
  // did not give to this consumer; `changes` then stays as it was.
  virtual absl::Status Return(Consumer consumer, Changes&& changes) = 0;
};

// A tracker of marks of any int64 ids.
//
// A mark is written to a log, unless the thread has marked the same id lately.
// Take cuts the log, and sorts the part before the cut while trainers continue
// to mark. The memory of the log is used again for the next interval.
//
// `ckptdb_bench marks` measures the costs. A mark takes a few nanoseconds, in
// batches of some thousand ids, beside other threads that mark. A Take takes 10
// to 20 nanoseconds for each mark since the last one, and while it runs 8 bytes
// for each mark beyond the set and the bound. Now and then a mark that finds
// the log full of repetitions merges them first, at the price of a Take.
class RowTracker : public ChangeTracker {
 public:
  struct Options {
    // The maximum memory of the marks. A mark takes 8 bytes, and so does a row
    // of a set that was returned. Marks of the same id are merged at the latest
    // when the bound is reached: max_bytes / 16 different ids always fit,
    // max_bytes / 8 never do; 67 and 134 million for the default. Beyond that
    // all marks are dropped, the next set of each consumer says so, and the
    // tracker starts again. A larger bound costs memory, a smaller one costs
    // base saves where deltas would have been enough. Below 1 MiB the fixed
    // part of the tracker takes too much of it. Default: 1 GiB.
    uint64_t max_bytes = uint64_t{1} << 30;
  };

  RowTracker();
  explicit RowTracker(const Options& options);
  ~RowTracker() override;
  RowTracker(const RowTracker&) = delete;
  RowTracker& operator=(const RowTracker&) = delete;

  absl::StatusOr<Consumer> AddConsumer(absl::string_view name) override;
  absl::Status RemoveConsumer(Consumer consumer) override;

  // Marks ids. The later of two marks of the same id in one batch, or in two
  // batches of one thread, is the newer one. While the next sets of all
  // consumers are incomplete anyway, marks are not written.
  void MarkUpserted(absl::Span<const int64_t> ids);
  void MarkErased(absl::Span<const int64_t> ids);

  [[nodiscard]] absl::StatusOr<Changes> Take(Consumer consumer) override;
  absl::Status Return(Consumer consumer, Changes&& changes) override;

  // Returns the memory of the log, the filters, returned sets, and what is kept
  // for the next interval.
  uint64_t memory_bytes() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

inline constexpr uint64_t kMaxBitmapRows = uint64_t{1} << 36;

// A tracker of marks of rows 0 to rows - 1, which are never erased. It takes
// one bit a row for each consumer, and one for each thread that marks, up to
// eight; Take reads all of them. It has no bound to go over.
class RowBitmap : public ChangeTracker {
 public:
  // Returns InvalidArgument for more than kMaxBitmapRows.
  static absl::StatusOr<std::unique_ptr<RowBitmap>> Make(uint64_t rows);
  ~RowBitmap() override;
  RowBitmap(const RowBitmap&) = delete;
  RowBitmap& operator=(const RowBitmap&) = delete;

  absl::StatusOr<Consumer> AddConsumer(absl::string_view name) override;
  absl::Status RemoveConsumer(Consumer consumer) override;

  // Returns OutOfRange naming the first id that is no row; then nothing is
  // marked.
  absl::Status MarkUpserted(absl::Span<const int64_t> ids);

  // `upserted` is in ascending order, `erased` empty.
  [[nodiscard]] absl::StatusOr<Changes> Take(Consumer consumer) override;
  // Also returns OutOfRange for an id that is no row, which was not in the set
  // when it was taken.
  absl::Status Return(Consumer consumer, Changes&& changes) override;

  uint64_t memory_bytes() const;

 private:
  class Impl;
  explicit RowBitmap(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace ckptdb

#endif  // CKPTDB_DB_ROW_TRACKER_H_
