// SPDX-License-Identifier: Apache-2.0
// Decides which rows of a table one rank owns, by the declared sharding.
#ifndef CKPTDB_DB_BASE_OWN_ROWS_H_
#define CKPTDB_DB_BASE_OWN_ROWS_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/types/span.h"
#include "db/state.h"
#include "schema/bytes/modulo_rank.h"
#include "schema/types.h"

namespace ckptdb {
namespace internal {

// Decides which rows of a table one rank owns. Thread-safe.
class OwnRows {
 public:
  // Creates a rank that owns all rows.
  OwnRows() = default;
  // Takes a sharding that CheckSharding accepts, with bounds if it is by
  // slices.
  OwnRows(TableSharding sharding, SliceHash hash, uint32_t rank,
          uint32_t world_size);
  // Takes only this rank's slices; those of other ranks are unknown.
  OwnRows(const SliceRange& slices, SliceHash hash, uint32_t rank,
          uint32_t world_size);

  // Returns whether the rank owns the row; `slice` is SliceOf the id.
  bool Has(int64_t id, uint16_t slice) const {
    switch (kind_) {
      case Item::Sharding::kBySlices:
        return slices_.Contains(slice);
      case Item::Sharding::kByModulo:
        return modulo_(id) == rank_;
      case Item::Sharding::kCustom:
      case Item::Sharding::kByRange:
        return sharding_.rank_of()(id, world_size_) == rank_;
      case Item::Sharding::kUndeclared:
      case Item::Sharding::kReplicated:
        return true;
    }
    return true;
  }

  // Whether ownership is decided by the trainer's function or by ranges:
  // FirstForeign looks up many ids at once.
  bool by_function() const {
    return kind_ == Item::Sharding::kCustom ||
           kind_ == Item::Sharding::kByRange;
  }

  // Sets ranks[i] to the rank of ids[i]: rank 0 if all ranks own it, and an
  // invalid one for an id without a rank.
  void RanksOf(absl::Span<const int64_t> ids, absl::Span<uint32_t> ranks) const;

  // Returns the first of `ids` that the rank does not own.
  std::optional<int64_t> FirstForeign(absl::Span<const int64_t> ids) const;

  // Describes an id that this rank should not have: "id 7 belongs to rank 1 of
  // 3 by modulo, but rank 0 has it".
  std::string DescribeForeign(int64_t id) const;
  // Returns an error text if the custom function or the ranges give the id no
  // valid rank, and otherwise an empty string.
  std::string DescribeNoRank(int64_t id) const;

 private:
  // Returns the rank of an id, or nothing if the slices of other ranks are
  // unknown.
  std::optional<uint32_t> RankOfId(int64_t id) const;

  Item::Sharding kind_ = Item::Sharding::kUndeclared;
  TableSharding sharding_;
  SliceHash hash_ = SliceHash::kModulo;
  SliceRange slices_;
  uint32_t rank_ = 0;
  uint32_t world_size_ = 1;
  ModuloRank modulo_{1};
};

}  // namespace internal
}  // namespace ckptdb

#endif  // CKPTDB_DB_BASE_OWN_ROWS_H_
