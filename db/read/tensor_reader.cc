// SPDX-License-Identifier: Apache-2.0
// Reads boxes of tensors from the chunks of their shards.
#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "db/disk/rocks_status.h"
#include "db/read/chunk_reader.h"
#include "db/read/step_reader_impl.h"
#include "schema/bytes/limits.h"
#include "schema/bytes/shape.h"
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

absl::Status ReadShard(const StepReader::Impl& step, const RankItem& shard,
                       const Box& both, const Box& box, char* out,
                       const ReadOptions& options) {
  const Item& item = *shard.item;
  const Box local{item.offset, item.shape};
  const CopyPlan plan(both, local, box, DTypeBytes(item.dtype));
  return ForChunks(step, shard, options,
                   [&](ChunkCursor* cursor, uint32_t chunk) -> absl::Status {
                     const uint64_t begin = chunk * kChunkBytes;
                     const uint64_t end = begin + ChunkRawBytes(item, chunk);
                     const uint64_t first = plan.FirstAfter(begin);
                     // A chunk without bytes of the box is not read.
                     if (first == plan.runs()) return absl::OkStatus();
                     const uint64_t source = plan.SourceOf(first);
                     if (source >= end) return absl::OkStatus();
                     // The whole chunk is part of one run, so it is decoded in
                     // place.
                     if (source <= begin && source + plan.run_bytes() >= end) {
                       return cursor->Read(chunk, out + plan.TargetOf(first) +
                                                      (begin - source));
                     }
                     std::string raw(end - begin, '\0');
                     CKPTDB_RETURN_IF_ERROR(cursor->Read(chunk, raw.data()));
                     CopyRuns(plan, first, begin, end, raw.data(), out);
                     return absl::OkStatus();
                   });
}

}  // namespace

absl::Status ReadBox(const StepReader::Impl& step,
                     const std::vector<RankItem>& shards, const Box& box,
                     char* out, const ReadOptions& options) {
  std::vector<std::pair<RankItem, Box>> needed;
  uint64_t covered = 0;
  for (const RankItem& shard : shards) {
    Box both;
    const Box local{shard.item->offset, shard.item->shape};
    if (!Intersect(local, box, &both)) continue;
    // Shards are replicas or disjoint; the first replica is read.
    const bool replica =
        std::any_of(needed.begin(), needed.end(), [&](const auto& other) {
          return other.first.item->offset == local.offset;
        });
    if (replica) continue;
    covered += Volume(both.shape);
    needed.emplace_back(shard, std::move(both));
  }
  // The shards do not overlap, so the sum of their parts shows whether they
  // cover the box.
  if (covered != Volume(box.shape)) {
    return absl::DataLossError(
        absl::StrCat(PlaceOf(shards[0]), ": its shards cover only ", covered,
                     " of ", Volume(box.shape), " elements of ",
                     ToString(box.shape), " at ", ToString(box.offset)));
  }
  // Reads one shard after the other; all threads read its chunks.
  for (const auto& [shard, both] : needed) {
    CKPTDB_RETURN_IF_ERROR(ReadShard(step, shard, both, box, out, options));
  }
  return absl::OkStatus();
}

}  // namespace ckptdb::internal
