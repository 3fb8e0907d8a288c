// How the rows of a table are divided among the ranks of a training: declared
// where the table is added, checked for every row when it is staged, recorded
// in the step, and used by restores.
//
//   state.AddTable({.name = "user", .slots = slots, .rows = &rows,
//                   .sharding = TableSharding::ByModulo()});
//
// Choose BySlices where you can: a rank that restores reads the bytes of its
// own slices, on any number of ranks. By any other rule it reads the ids of all
// rows, and the pages that have any of its own.
#ifndef CKPTDB_DB_SHARDING_H_
#define CKPTDB_DB_SHARDING_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "ckptdb/schema/sharding.h"
#include "ckptdb/schema/slice.h"

namespace ckptdb {

class TableSharding {
 public:
  // The rank that has an id in a world of so many: below `world_size`, and the
  // same in every process. Called from several threads at once.
  using RankOf = std::function<uint32_t(int64_t id, uint32_t world_size)>;

  // Nothing is declared. A save of one rank needs nothing; of several ranks
  // SaveSpec::slice_bounds declare slices, and without them staging refuses
  // the table.
  TableSharding() = default;

  // Rank r has the ids of slices [bounds[r], bounds[r + 1]): see SliceOf, with
  // the table's SliceHash. Without bounds a manager takes EvenSliceBounds, and
  // a stager those of SaveSpec::slice_bounds, which a save by slices of several
  // ranks has to have. The tables of one step have the same bounds.
  static TableSharding BySlices(std::vector<uint32_t> bounds = {});

  // Rank uint64(id) % world_size has an id. That is also so for negative ids:
  // of 3 ranks, rank 0 has -1, as 2^64 - 1 is a multiple of 3, where the
  // remainder of the signed number would be -1.
  static TableSharding ByModulo();

  // Rank rank_of(id, world_size) has an id. The name is recorded: a manager
  // whose function has another name does not restore the step. Give a function
  // that places ids otherwise another name.
  static TableSharding ByFunction(std::string name, RankOf rank_of);

  // All ranks have the same rows. Rank 0 saves them, the rows of others are not
  // read, and each rank restores all.
  static TableSharding Replicated();

  // An id is on any one rank, and may move: its new rank upserts it in the save
  // in which its old rank erases it. Nothing is checked when it is saved, and
  // an id that two ranks upsert is found by StepReader::Verify alone. Recorded
  // as undeclared. Managers refuse it, as they could not restore it.
  static TableSharding Unchecked();

  // False of what the default constructor makes.
  bool declared() const { return declared_; }
  ShardingKind kind() const { return kind_; }
  const std::string& name() const { return name_; }
  const std::vector<uint32_t>& bounds() const { return bounds_; }
  const RankOf& rank_of() const { return rank_of_; }

 private:
  explicit TableSharding(ShardingKind kind, std::string name = {},
                         std::vector<uint32_t> bounds = {},
                         RankOf rank_of = {});

  bool declared_ = false;
  ShardingKind kind_ = ShardingKind::kUndeclared;
  std::string name_;
  std::vector<uint32_t> bounds_;
  RankOf rank_of_;
};

// What to declare, for messages about a table that declares nothing.
inline constexpr char kShardingChoices[] =
    "TableSharding::BySlices(), ByModulo(), ByFunction(name, rank_of) or "
    "Replicated()";

namespace internal {

// InvalidArgument: a function without a name or a name that cannot be stored, a
// function that is null, bounds that do not rise from 0 to kSlices in
// `world_size` ranges.
absl::Status CheckSharding(const TableSharding& sharding, uint32_t world_size);

// Which rows of a table one rank has. Thread-safe.
class OwnRows {
 public:
  // All.
  OwnRows() = default;
  // By a sharding that CheckSharding takes, whose bounds are there if it is by
  // slices.
  OwnRows(TableSharding sharding, SliceHash hash, uint32_t rank,
          uint32_t world_size);
  // The slices of this rank, where those of others are not known.
  OwnRows(const SliceRange& slices, SliceHash hash, uint32_t rank,
          uint32_t world_size);

  // `slice` as SliceOf the id.
  bool Has(int64_t id, uint16_t slice) const {
    switch (kind_) {
      case ShardingKind::kBySlices:
        return slices_.Contains(slice);
      case ShardingKind::kByModulo:
        return modulo_(id) == rank_;
      case ShardingKind::kCustom:
        return sharding_.rank_of()(id, world_size_) == rank_;
      case ShardingKind::kUndeclared:
      case ShardingKind::kReplicated:
        return true;
    }
    return true;
  }

  // "id 7 belongs to rank 1 of 3 by modulo, and rank 0 has it": of an id that
  // this rank should not have.
  std::string DescribeForeign(int64_t id) const;
  // Empty unless the custom function names no rank for the id.
  std::string DescribeNoRank(int64_t id) const;

 private:
  // Not known of slices whose bounds are not there.
  std::optional<uint32_t> RankOfId(int64_t id) const;

  ShardingKind kind_ = ShardingKind::kUndeclared;
  TableSharding sharding_;
  SliceHash hash_ = SliceHash::kModulo;
  SliceRange slices_;
  uint32_t rank_ = 0;
  uint32_t world_size_ = 1;
  ModuloRank modulo_{1};
};

}  // namespace internal
}  // namespace ckptdb

#endif  // CKPTDB_DB_SHARDING_H_
