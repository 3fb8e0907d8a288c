// SPDX-License-Identifier: Apache-2.0
#include "db/track/newest_marks.h"

#include <algorithm>
#include <bit>

#include "db/track/mark_hash.h"

namespace ckptdb::internal {
namespace {

// The bits of a mark below its hash: its kind, and one that is always set.
constexpr uint64_t kKindBit = 1;
constexpr uint64_t kMarkBit = 2;  // so that no mark is 0

// The marks of one part that were already seen.
class SeenMarks {
 public:
  void Reset(size_t marks) {
    constexpr size_t kMinSlots = 16;
    // At most half of the slots are in use, so that a search soon finds an
    // empty one.
    const size_t slots = std::bit_ceil(std::max(2 * marks, kMinSlots));
    slots_.assign(slots, 0);
    shift_ = 64 - std::countr_zero(slots);
  }

  // Adds a mark. Returns false if the id is already there, with either kind.
  bool Insert(uint64_t mark) {
    const size_t last = slots_.size() - 1;
    for (size_t i = mark >> shift_;; i = (i + 1) & last) {
      if (slots_[i] == 0) {
        slots_[i] = mark;
        return true;
      }
      if ((slots_[i] | kKindBit) == (mark | kKindBit)) return false;
    }
  }

 private:
  std::vector<uint64_t> slots_;
  int shift_ = 0;
};

}  // namespace

NewestMarks::NewestMarks(absl::Span<const MarkGroup> groups)
    : begin_(groups.size()), size_(groups.size()), counts_(groups.size()) {
  CountParts(groups);
  Distribute(groups);
  Merge();
}

// Counts the marks of each group in each part, and assigns each a place in one
// array: part by part, and within a part the newest group first.
void NewestMarks::CountParts(absl::Span<const MarkGroup> groups) {
  for (size_t g = 0; g < groups.size(); ++g) {
    for (const MarkPiece& piece : groups[g]) {
      rows_ += piece.hashes.size();
      for (const uint64_t hash : piece.hashes) {
        ++size_[g][hash >> (64 - kPartBits)];
      }
    }
  }
  size_t at = 0;
  for (size_t part = 0; part < kParts; ++part) {
    for (size_t g = 0; g < groups.size(); ++g) {
      begin_[g][part] = at;
      at += size_[g][part];
    }
  }
}

// Copies the hashes into their parts. The part implies the high bits of a hash,
// which leaves room for the kind.
void NewestMarks::Distribute(absl::Span<const MarkGroup> groups) {
  static_assert(kPartBits >= 2);  // room for the two bits
  marks_ = std::make_unique_for_overwrite<uint64_t[]>(rows_);
  for (size_t g = 0; g < groups.size(); ++g) {
    PartSizes next = begin_[g];
    for (const MarkPiece& piece : groups[g]) {
      const uint64_t bits = kMarkBit | static_cast<uint64_t>(piece.kind);
      for (const uint64_t hash : piece.hashes) {
        marks_[next[hash >> (64 - kPartBits)]++] = hash << kPartBits | bits;
      }
    }
  }
}

size_t NewestMarks::PartRows(size_t part) const {
  size_t rows = 0;
  for (const PartSizes& sizes : size_) rows += sizes[part];
  return rows;
}

// Keeps the first mark of each id of a part, its newest, and compacts the kept
// marks within their group.
void NewestMarks::Merge() {
  SeenMarks seen;
  for (size_t part = 0; part < kParts; ++part) {
    seen.Reset(PartRows(part));
    for (size_t g = 0; g < size_.size(); ++g) {
      uint64_t* const marks = marks_.get() + begin_[g][part];
      size_t left = 0;
      for (size_t i = 0; i < size_[g][part]; ++i) {
        const uint64_t mark = marks[i];
        if (!seen.Insert(mark)) continue;
        marks[left++] = mark;
        ++counts_[g][mark & kKindBit];
      }
      size_[g][part] = left;
    }
  }
}

void NewestMarks::ForEach(
    size_t group, MarkKind kind,
    const std::function<void(absl::Span<const uint64_t>)>& use) const {
  if (Count(group, kind) == 0) return;
  std::array<uint64_t, 1024> hashes;
  size_t count = 0;
  for (uint64_t part = 0; part < kParts; ++part) {
    const uint64_t* const marks = marks_.get() + begin_[group][part];
    for (size_t i = 0; i < size_[group][part]; ++i) {
      const uint64_t mark = marks[i];
      if ((mark & kKindBit) != static_cast<uint64_t>(kind)) continue;
      hashes[count++] = part << (64 - kPartBits) | mark >> kPartBits;
      if (count < hashes.size()) continue;
      use(hashes);
      count = 0;
    }
  }
  if (count > 0) use(absl::MakeConstSpan(hashes).first(count));
}

std::vector<int64_t> NewestMarks::Ids(size_t group, MarkKind kind) const {
  std::vector<int64_t> ids;
  ids.reserve(Count(group, kind));
  ForEach(group, kind, [&ids](absl::Span<const uint64_t> hashes) {
    for (const uint64_t hash : hashes) ids.push_back(UnspreadId(hash));
  });
  return ids;
}

}  // namespace ckptdb::internal
