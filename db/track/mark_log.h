// SPDX-License-Identifier: Apache-2.0
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
#include "db/base/mutex.h"
#include "db/track/newest_marks.h"

namespace ckptdb::internal {

// Memory for ids. Returned memory is kept for reuse, because first touching new
// memory costs more than everything else in a mark. Thread-safe: any thread may
// return a chunk.
class ChunkPool : public std::enable_shared_from_this<ChunkPool> {
 public:
  struct Chunk {
    std::shared_ptr<uint64_t[]> hashes;  // keeps the pool alive
    size_t rows = 0;
  };

  // Returns a buffer for at least `rows` rows.
  Chunk Get(size_t rows);

  // Returns kept memory beyond `bytes` to the system.
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
  std::vector<Buffer> kept_ ABSL_GUARDED_BY(mutex_);  // ordered by rows
};

// Estimates the number of distinct ids among marks from one in a thousand of
// them, each of which sets a bit.
class MarkSample {
 public:
  using Hashes = absl::InlinedVector<uint64_t, 16>;

  // Returns the marks that belong to the sample.
  static Hashes Select(absl::Span<const uint64_t> hashes);
  void Add(absl::Span<const uint64_t> selected);
  void Clear();

  double Ids() const;

  uint64_t bytes() const { return bits_.capacity() * sizeof(uint64_t); }

 private:
  static constexpr uint64_t kSampled = 1024;
  // These bits are lower than those that order filters and parts.
  static constexpr int kShift = 30;
  // This number of bits distinguishes up to some hundred million ids.
  static constexpr size_t kBits = size_t{1} << 16;

  std::vector<uint64_t> bits_;  // empty before the first Add
  size_t set_bits_ = 0;
};

// Consecutive marks of one kind and epoch in a chunk.
struct MarkRun {
  uint64_t epoch = 0;
  MarkKind kind = MarkKind::kUpserted;
  absl::Span<const uint64_t> hashes;
  std::shared_ptr<const uint64_t[]> chunk;
};

// Space in the log for marks whose hashes are not written yet.
struct MarkRoom {
  absl::Span<uint64_t> hashes;
  std::shared_ptr<uint64_t[]> chunk;

  // Writes the first of `hashes` and returns how many.
  size_t Fill(absl::Span<const uint64_t> from) const {
    std::copy_n(from.begin(), hashes.size(), hashes.begin());
    return hashes.size();
  }
};

// The marks, oldest first, divided by epochs, which only grow. Not thread-safe,
// but the ids of a copied run do not change, and space may be filled while
// Reserve and Sample are called.
class MarkLog {
 public:
  // Returns space for at least one of `rows` marks. It must be filled before
  // calling any member other than Reserve, Sample and the constant ones that
  // return numbers.
  MarkRoom Reserve(uint64_t epoch, MarkKind kind, size_t rows);
  // Adds the sample of marks for which space was reserved.
  void Sample(absl::Span<const uint64_t> selected) { sample_.Add(selected); }
  // Appends all marks.
  void Append(uint64_t epoch, MarkKind kind, absl::Span<const uint64_t> hashes);

  // Returns how much `rows` marks add to used_bytes() if no memory is kept.
  uint64_t BytesToAppend(uint64_t epoch, MarkKind kind, size_t rows) const;

  // Returns the marks of all later epochs.
  std::vector<MarkRun> After(uint64_t epoch) const;
  // Forgets the marks of all epochs up to this one.
  void DropUpTo(uint64_t epoch);
  void Clear() { DropUpTo(UINT64_MAX); }

  // Returns whether three of four marks are likely to be repetitions.
  bool WorthMerging() const;
  // Keeps the newest mark of each id. `cuts`, ascending, are the epochs that
  // After may still be called with: for these, and only for these, it returns
  // the same ids as before, with fewer repetitions.
  void Merge(absl::Span<const uint64_t> cuts);

  size_t rows() const { return rows_; }
  uint64_t used_bytes() const;
  // Returns the memory kept for reuse; KeepAtMost reduces it to `bytes`,
  // KeepWhatWasNeeded to the log's peak since the previous call.
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
  // The chunk that is being filled, and how many rows it holds.
  ChunkPool::Chunk chunk_;
  size_t chunk_used_ = 0;
  uint64_t peak_bytes_ = 0;
  MarkSample sample_;
  size_t merged_rows_ = 0;  // rows after the last merge
};

}  // namespace ckptdb::internal

#endif  // CKPTDB_DB_TRACK_MARK_LOG_H_
