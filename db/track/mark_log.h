// The log of a RowTracker; internal to db/.
#ifndef CKPTDB_DB_TRACK_MARK_LOG_H_
#define CKPTDB_DB_TRACK_MARK_LOG_H_

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/inlined_vector.h"
#include "absl/types/span.h"
#include "ckptdb/db/base/mutex.h"
#include "ckptdb/db/track/newest_marks.h"

namespace ckptdb::internal {

// Memory for ids. What is given back is kept for later, as the first touch of
// fresh memory costs more than all else that a mark does. Thread-safe: a chunk
// may be given back by any thread.
class ChunkPool : public std::enable_shared_from_this<ChunkPool> {
 public:
  struct Chunk {
    std::shared_ptr<uint64_t[]> hashes;  // keeps the pool alive
    size_t rows = 0;
  };

  // For at least so many rows.
  Chunk Get(size_t rows);

  // Gives what is kept beyond `bytes` back to the system.
  void KeepAtMost(uint64_t bytes);

  uint64_t used_bytes() const { return used_bytes_.load(); }
  uint64_t kept_bytes() const { return kept_bytes_.load(); }

 private:
  struct Buffer {
    std::unique_ptr<uint64_t[]> hashes;
    size_t rows = 0;

    uint64_t bytes() const { return rows * sizeof(uint64_t); }
  };

  Buffer Reuse(size_t rows);
  void GiveBack(Buffer buffer);

  std::atomic<uint64_t> used_bytes_{0};
  std::atomic<uint64_t> kept_bytes_{0};
  Mutex mutex_;
  std::vector<Buffer> kept_ ABSL_GUARDED_BY(mutex_);  // by rows
};

// About how many different ids there are among marks, from one in a thousand:
// each of these sets a bit.
class MarkSample {
 public:
  using Hashes = absl::InlinedVector<uint64_t, 16>;

  // Those that it is made of.
  static Hashes Select(absl::Span<const uint64_t> hashes);
  void Add(absl::Span<const uint64_t> selected);
  void Clear();

  double Ids() const;

  uint64_t bytes() const { return bits_.capacity() * sizeof(uint64_t); }

 private:
  static constexpr uint64_t kSampled = 1024;
  // Lower bits than those that filters and parts are ordered by.
  static constexpr int kShift = 30;
  // Tells some hundred million ids apart from more.
  static constexpr size_t kBits = size_t{1} << 16;

  std::vector<uint64_t> bits_;  // empty before the first Add
  size_t set_bits_ = 0;
};

// Marks of one kind and epoch, one after the other in a chunk.
struct MarkRun {
  uint64_t epoch = 0;
  MarkKind kind = MarkKind::kUpserted;
  absl::Span<const uint64_t> hashes;
  std::shared_ptr<const uint64_t[]> chunk;
};

// Where marks go that are in the log already, but for their hashes.
struct MarkRoom {
  absl::Span<uint64_t> hashes;
  std::shared_ptr<uint64_t[]> chunk;

  // With the first ones; returns how many.
  size_t Fill(absl::Span<const uint64_t> from) const {
    std::copy_n(from.begin(), hashes.size(), hashes.begin());
    return hashes.size();
  }
};

// What was marked, the oldest first. Epochs cut it: they only grow. Not
// thread-safe; but the ids of a run that was copied stay as they are, and room
// may be filled beside other calls of Reserve and Sample.
class MarkLog {
 public:
  // Room for some of so many marks, one at least. To be filled before any but
  // Reserve, Sample and the constant members that return numbers is called.
  MarkRoom Reserve(uint64_t epoch, MarkKind kind, size_t rows);
  // What MarkSample selects of marks for which there was room.
  void Sample(absl::Span<const uint64_t> selected) { sample_.Add(selected); }
  // All of it.
  void Append(uint64_t epoch, MarkKind kind, absl::Span<const uint64_t> hashes);

  // What so many marks add to used_bytes() when no memory is kept.
  uint64_t BytesToAppend(uint64_t epoch, MarkKind kind, size_t rows) const;

  // The marks of all epochs after this one.
  std::vector<MarkRun> After(uint64_t epoch) const;
  // Forgets the marks of all epochs up to this one.
  void DropUpTo(uint64_t epoch);
  void Clear() { DropUpTo(UINT64_MAX); }

  // Whether three of four marks are likely to be repetitions.
  bool WorthMerging() const;
  // Leaves of each id the newest mark. `cuts`, ascending, are epochs that
  // somebody may read from: for After of these, and of none else, nothing
  // changes but the number of repetitions.
  void Merge(absl::Span<const uint64_t> cuts);

  size_t rows() const { return rows_; }
  uint64_t used_bytes() const;
  // Memory for later; and what it is cut down to: so much, or what the log
  // needed at most since the last call.
  uint64_t kept_bytes() const { return pool_->kept_bytes(); }
  void KeepAtMost(uint64_t bytes) { pool_->KeepAtMost(bytes); }
  void KeepWhatWasNeeded();

 private:
  size_t NextChunkRows(size_t rows) const;
  bool ExtendsLastRun(uint64_t epoch, MarkKind kind) const;
  size_t RunsToAdd() const;
  std::vector<MarkGroup> GroupsBetween(absl::Span<const uint64_t> cuts,
                                       std::vector<uint64_t>* epochs) const;
  void AddRun(const MarkRun& run);

  const std::shared_ptr<ChunkPool> pool_ = std::make_shared<ChunkPool>();
  std::vector<MarkRun> runs_;
  size_t rows_ = 0;
  // The chunk that is being filled, and how far.
  ChunkPool::Chunk chunk_;
  size_t chunk_used_ = 0;
  uint64_t peak_bytes_ = 0;
  MarkSample sample_;
  size_t merged_rows_ = 0;  // what the last merge has left
};

}  // namespace ckptdb::internal

#endif  // CKPTDB_DB_TRACK_MARK_LOG_H_
