// Tells which rows of a table one rank has, by the declared sharding.
#ifndef CKPTDB_DB_BASE_OWN_ROWS_H_
#define CKPTDB_DB_BASE_OWN_ROWS_H_

#include <cstdint>
#include <optional>
#include <string>

#include "ckptdb/db/state.h"
#include "ckptdb/schema/bytes/modulo_rank.h"
#include "ckptdb/schema/types.h"

namespace ckptdb {
namespace internal {

// Tells which rows of a table one rank has. Thread-safe.
class OwnRows {
 public:
  // Makes a rank that has all rows.
  OwnRows() = default;
  // Uses a sharding that CheckSharding accepts, with bounds if it is by slices.
  OwnRows(TableSharding sharding, SliceHash hash, uint32_t rank,
          uint32_t world_size);
  // The slices of this rank, where those of others are not known.
  OwnRows(const SliceRange& slices, SliceHash hash, uint32_t rank,
          uint32_t world_size);

  // Returns whether the rank has the row; `slice` is SliceOf the id.
  bool Has(int64_t id, uint16_t slice) const {
    switch (kind_) {
      case Item::Sharding::kBySlices:
        return slices_.Contains(slice);
      case Item::Sharding::kByModulo:
        return modulo_(id) == rank_;
      case Item::Sharding::kCustom:
        return sharding_.rank_of()(id, world_size_) == rank_;
      case Item::Sharding::kUndeclared:
      case Item::Sharding::kReplicated:
        return true;
    }
    return true;
  }

  // "id 7 belongs to rank 1 of 3 by modulo, and rank 0 has it": of an id that
  // this rank should not have.
  std::string DescribeForeign(int64_t id) const;
  // Returns the error if the custom function names no rank for the id, and else
  // an empty string.
  std::string DescribeNoRank(int64_t id) const;

 private:
  // Returns the rank of an id, or nothing if slices have no bounds.
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
