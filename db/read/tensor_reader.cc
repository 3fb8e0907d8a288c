// SPDX-License-Identifier: Apache-2.0
// Reads boxes of tensors from the chunks of their shards.
#include <algorithm>
#include <atomic>
#include <cstring>
#include <functional>
#include <limits>
#include <set>
#include <tuple>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "db/base/cancelled.h"
#include "db/base/mutex.h"
#include "db/base/parallel.h"
#include "db/base/progress.h"
#include "db/disk/rocks_status.h"
#include "db/read/chunk_reader.h"
#include "db/read/step_reader_impl.h"
#include "schema/bytes/limits.h"
#include "schema/bytes/shape.h"
#include "schema/records/shards.h"
#include "schema/status.h"
#include "schema/types.h"

namespace ckptdb::internal {
namespace {

uint64_t Volume(const Shape& shape) {
  uint64_t volume = 1;
  for (const int64_t dimension : shape) {
    volume *= static_cast<uint64_t>(dimension);
  }
  return volume;
}

// Describes how a box is copied between two row-major arrays: in runs of equal
// length, each contiguous in both arrays, ascending in the source.
class CopyPlan {
 public:
  // `both` is in global coordinates; `from` and `to` are the arrays' boxes.
  CopyPlan(const Box& both, const Box& from, const Box& to,
           uint32_t element_bytes)
      : both_(both), from_(from), to_(to), element_bytes_(element_bytes) {
    // The dimensions from inner_ on form a run: all but the first of them are
    // complete in both arrays.
    inner_ = both.shape.size();
    uint64_t elements = 1;
    while (inner_ > 0) {
      --inner_;
      elements *= static_cast<uint64_t>(both.shape[inner_]);
      if (both.shape[inner_] != from.shape[inner_] ||
          both.shape[inner_] != to.shape[inner_]) {
        break;
      }
    }
    run_bytes_ = elements * element_bytes;
    runs_ = Volume(both.shape) / elements;
  }

  uint64_t runs() const { return runs_; }
  uint64_t run_bytes() const { return run_bytes_; }
  uint64_t SourceOf(uint64_t run) const { return OffsetOf(run, from_); }
  uint64_t TargetOf(uint64_t run) const { return OffsetOf(run, to_); }

  // Returns the first run that ends after byte `at` of the source.
  uint64_t FirstAfter(uint64_t at) const {
    uint64_t low = 0;
    uint64_t high = runs_;
    while (low < high) {
      const uint64_t middle = low + (high - low) / 2;
      if (SourceOf(middle) + run_bytes_ <= at) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    return low;
  }

 private:
  // Returns the byte offset of a run in the array of box `array`.
  uint64_t OffsetOf(uint64_t run, const Box& array) const {
    uint64_t offset = 0;
    uint64_t stride = 1;
    for (size_t i = both_.shape.size(); i-- > 0;) {
      auto index = static_cast<uint64_t>(both_.offset[i] - array.offset[i]);
      if (i < inner_) {
        const auto extent = static_cast<uint64_t>(both_.shape[i]);
        index += run % extent;
        run /= extent;
      }
      offset += index * stride;
      stride *= static_cast<uint64_t>(array.shape[i]);
    }
    return offset * element_bytes_;
  }

  const Box& both_;
  const Box& from_;
  const Box& to_;
  const uint32_t element_bytes_;
  size_t inner_;
  uint64_t run_bytes_;
  uint64_t runs_;
};

// Copies the part of each run that lies in a chunk, bytes [begin, end) of its
// shard.
void CopyRuns(const CopyPlan& plan, uint64_t first, uint64_t begin,
              uint64_t end, const char* chunk, char* out) {
  for (uint64_t run = first; run < plan.runs(); ++run) {
    const uint64_t source = plan.SourceOf(run);
    if (source >= end) return;
    const uint64_t from = std::max(source, begin);
    const uint64_t to = std::min(source + plan.run_bytes(), end);
    std::memcpy(out + plan.TargetOf(run) + (from - source),
                chunk + (from - begin), to - from);
  }
}

// The part of a box that one shard has.
struct Piece {
  RankItem shard;
  Box local;  // of the whole shard
  Box both;
  const BoxRead* read;
  uint64_t number;  // in the order of the reads, and of the shards of each
};

// Whether a piece is read in one go, together with its neighbours in the file.
bool IsSmall(const Piece& piece) {
  const Item& item = *piece.shard.item;
  return item.chunk_hashes.size() == 1 && !IsReadAhead(item);
}

// Orders pieces by placement, and then like their keys.
bool KeyBefore(const Piece& a, const Piece& b) {
  const auto key = [](const Piece& piece) {
    const Item& item = *piece.shard.item;
    return std::make_tuple(item.placement, std::cref(item.data_version),
                           piece.shard.rank, std::cref(item.name),
                           item.first_chunk);
  };
  return key(a) < key(b);
}

// Reads one chunk of a shard, and copies what the box has of it.
absl::Status ReadChunk(const Piece& piece, const CopyPlan& plan, uint32_t chunk,
                       ChunkCursor* cursor) {
  const uint64_t begin = chunk * kChunkBytes;
  const uint64_t end = begin + ChunkRawBytes(*piece.shard.item, chunk);
  const uint64_t first = plan.FirstAfter(begin);
  // A chunk without bytes of the box is not read.
  if (first == plan.runs()) return absl::OkStatus();
  const uint64_t source = plan.SourceOf(first);
  if (source >= end) return absl::OkStatus();
  char* const out = piece.read->out;
  // The whole chunk is part of one run, so it is decoded in place.
  if (source <= begin && source + plan.run_bytes() >= end) {
    return cursor->Read(piece.shard, chunk,
                        out + plan.TargetOf(first) + (begin - source));
  }
  std::string raw(end - begin, '\0');
  CKPTDB_RETURN_IF_ERROR(cursor->Read(piece.shard, chunk, raw.data()));
  CopyRuns(plan, first, begin, end, raw.data(), out);
  return absl::OkStatus();
}

// Reads boxes on several threads: the chunks of a large piece by one task for
// each readahead, small pieces by one for many that lie side by side.
class BoxReader {
 public:
  BoxReader(const StepReader::Impl& step, const ReadOptions& options)
      : step_(step),
        options_(options),
        progress_("ReadOptions::progress", options.progress) {}

  // Returns DataLoss if the shards do not cover the box.
  absl::Status Add(const BoxRead& read);
  absl::Status Run();

 private:
  // Chunks [first_chunk, end_chunk) of pieces [begin, end).
  struct Task {
    size_t begin;
    size_t end;
    uint32_t first_chunk;
    uint32_t end_chunk;
  };

  void AddTasks();
  absl::Status Work(const Task& task);
  absl::Status ReadPiece(const Task& task, const Piece& piece,
                         ChunkCursor* cursor);
  void Fail(uint64_t place, absl::Status status);

  const StepReader::Impl& step_;
  const ReadOptions& options_;
  Progress progress_;
  std::vector<Piece> pieces_;
  std::vector<Task> tasks_;
  // The first chunk in the order of the reads that failed. Later ones are not
  // read any more, earlier ones are, as their error is the one to return.
  std::atomic<uint64_t> failed_at_ = std::numeric_limits<uint64_t>::max();
  Mutex mutex_;
  absl::Status status_ ABSL_GUARDED_BY(mutex_);
};

absl::Status BoxReader::Add(const BoxRead& read) {
  std::set<Shape> offsets;
  std::vector<const Item*> items;
  uint64_t covered = 0;
  for (const RankItem& shard : *read.shards) {
    Box both;
    Box local{shard.item->offset, shard.item->shape};
    if (!Intersect(local, read.box, &both)) continue;
    // Shards are replicas or disjoint; the first replica is read.
    if (!offsets.insert(local.offset).second) continue;
    covered += Volume(both.shape);
    items.push_back(shard.item);
    pieces_.push_back(
        {shard, std::move(local), std::move(both), &read, pieces_.size()});
  }
  // Publish refuses these, so they are found only in a store that was tampered
  // with.
  if (const auto overlap = FindOverlap(std::move(items)); overlap.has_value()) {
    const auto& [a, b] = *overlap;
    return absl::DataLossError(
        absl::StrCat(PlaceOf(read.shards->front()), ": its shards overlap: ",
                     ToString(a->shape), " at ", ToString(a->offset), " and ",
                     ToString(b->shape), " at ", ToString(b->offset)));
  }
  // The shards do not overlap, so the sum of their parts shows whether they
  // cover the box.
  if (covered == Volume(read.box.shape)) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat(
      PlaceOf(read.shards->front()), ": its shards cover only ", covered,
      " of ", Volume(read.box.shape), " elements of ", ToString(read.box.shape),
      " at ", ToString(read.box.offset)));
}

// Adds a task for each readahead of a large piece, and for small pieces that
// together have about as many bytes as a chunk.
void BoxReader::AddTasks() {
  constexpr size_t kMostPieces = 512;
  std::sort(pieces_.begin(), pieces_.end(), KeyBefore);
  for (size_t begin = 0, end = 0; begin < pieces_.size(); begin = end) {
    const Item& item = *pieces_[begin].shard.item;
    end = begin + 1;
    if (IsSmall(pieces_[begin])) {
      for (uint64_t bytes = item.stored_bytes;
           end < pieces_.size() && end - begin < kMostPieces &&
           bytes < kChunkBytes && IsSmall(pieces_[end]) &&
           pieces_[end].shard.item->placement == item.placement;
           ++end) {
        bytes += pieces_[end].shard.item->stored_bytes;
      }
    }
    for (size_t i = begin; i < end; ++i) {
      progress_.AddTotal(pieces_[i].shard.item->raw_bytes);
    }
    const auto chunks = static_cast<uint32_t>(item.chunk_hashes.size());
    const uint32_t together = ChunksPerTask(item, options_);
    for (uint32_t chunk = 0; chunk < chunks; chunk += together) {
      tasks_.push_back({begin, end, chunk, std::min(chunk + together, chunks)});
    }
  }
}

void BoxReader::Fail(uint64_t place, absl::Status status) {
  const MutexLock lock(&mutex_);
  if (place >= failed_at_) return;
  failed_at_ = place;
  status_ = std::move(status);
}

absl::Status BoxReader::ReadPiece(const Task& task, const Piece& piece,
                                  ChunkCursor* cursor) {
  const CopyPlan plan(piece.both, piece.local, piece.read->box,
                      DTypeBytes(piece.shard.item->dtype));
  for (uint32_t chunk = task.first_chunk; chunk < task.end_chunk; ++chunk) {
    CKPTDB_RETURN_IF_ERROR(CheckCancelled(options_.cancelled));
    const uint64_t place = (piece.number << 32) + chunk;
    if (place >= failed_at_) break;
    absl::Status status = ReadChunk(piece, plan, chunk, cursor);
    if (!status.ok()) Fail(place, std::move(status));
    CKPTDB_RETURN_IF_ERROR(
        progress_.Advance(ChunkRawBytes(*piece.shard.item, chunk)));
  }
  return absl::OkStatus();
}

absl::Status BoxReader::Work(const Task& task) {
  ChunkCursor cursor(step_, pieces_[task.begin].shard,
                     pieces_[task.end - 1].shard, task.end_chunk);
  for (size_t i = task.begin; i < task.end; ++i) {
    CKPTDB_RETURN_IF_ERROR(ReadPiece(task, pieces_[i], &cursor));
  }
  return absl::OkStatus();
}

absl::Status BoxReader::Run() {
  AddTasks();
  CKPTDB_RETURN_IF_ERROR(ParallelFor(
      options_.threads, tasks_.size(),
      [&](int, uint64_t i) { return Work(tasks_[i]); },
      PollOf(options_.cancelled)));
  const MutexLock lock(&mutex_);
  return status_;
}

}  // namespace

absl::Status ReadBoxes(const StepReader::Impl& step,
                       absl::Span<const BoxRead> reads,
                       const ReadOptions& options) {
  BoxReader reader(step, options);
  for (const BoxRead& read : reads) CKPTDB_RETURN_IF_ERROR(reader.Add(read));
  return reader.Run();
}

}  // namespace ckptdb::internal
