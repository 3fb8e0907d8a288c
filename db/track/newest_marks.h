// SPDX-License-Identifier: Apache-2.0
// Finds the newest mark of each id; internal to db/.
#ifndef CKPTDB_DB_TRACK_NEWEST_MARKS_H_
#define CKPTDB_DB_TRACK_NEWEST_MARKS_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "absl/types/span.h"

namespace ckptdb::internal {

enum class MarkKind : uint8_t { kUpserted = 0, kErased = 1 };

// Marks of one kind, as hashes (SpreadId). All marks of an id are equal, so
// their order does not matter.
struct MarkPiece {
  absl::Span<const uint64_t> hashes;
  MarkKind kind = MarkKind::kUpserted;
};

// Marks, ordered from the newest piece to the oldest.
using MarkGroup = std::vector<MarkPiece>;

// Distributes the marks by hash into parts that fit into a cache, and scans
// each part from the newest mark to the oldest: the first mark of an id is
// kept, in its group. Takes 8 bytes per mark and two passes over the ids, which
// are not needed afterwards.
class NewestMarks {
 public:
  // `groups` are ordered from the newest to the oldest.
  explicit NewestMarks(absl::Span<const MarkGroup> groups);

  size_t Count(size_t group, MarkKind kind) const {
    return counts_[group][static_cast<size_t>(kind)];
  }

  // Calls `use` with each hash once, up to a thousand at a time.
  void ForEach(
      size_t group, MarkKind kind,
      const std::function<void(absl::Span<const uint64_t>)>& use) const;

  std::vector<int64_t> Ids(size_t group, MarkKind kind) const;

 private:
  static constexpr int kPartBits = 8;
  static constexpr size_t kParts = size_t{1} << kPartBits;
  using PartSizes = std::array<size_t, kParts>;

  void CountParts(absl::Span<const MarkGroup> groups);
  void Distribute(absl::Span<const MarkGroup> groups);
  void Merge();
  size_t PartRows(size_t part) const;

  size_t rows_ = 0;
  // Hashes without the bits that the part implies, and with the kind.
  std::unique_ptr<uint64_t[]> marks_;
  // The position at which each group's marks begin in each part, and the number
  // of them that are kept.
  std::vector<PartSizes> begin_;
  std::vector<PartSizes> size_;
  std::vector<std::array<size_t, 2>> counts_;
};

}  // namespace ckptdb::internal

#endif  // CKPTDB_DB_TRACK_NEWEST_MARKS_H_
