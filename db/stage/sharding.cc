// SPDX-License-Identifier: Apache-2.0
#include "db/base/own_rows.h"
#include "db/state.h"

#include <algorithm>
#include <functional>
#include <new>
#include <stdexcept>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "db/base/call_guard.h"
#include "db/base/staging.h"
#include "schema/bytes/names.h"
#include "schema/types.h"

namespace ckptdb {
namespace {

using RankOf = std::function<uint32_t(int64_t, uint32_t)>;
using RanksOf = std::function<void(absl::Span<const int64_t>, uint32_t,
                                   absl::Span<uint32_t>)>;

// Calls the function of a sharding, and adds the sharding's name and the ids to
// its exception, because a call may pass through many tables.
template <typename Function>
void CallWithContext(const std::string& name, absl::Span<const int64_t> ids,
                     const Function& function) {
  const absl::Status called = internal::CallGuarded(
      absl::StrCat("the function of sharding \"", name, "\""), function);
  if (called.ok()) return;
  // Keeps the kind of the exception, so that lack of memory remains
  // ResourceExhausted.
  if (absl::IsResourceExhausted(called)) throw std::bad_alloc();
  throw std::runtime_error(absl::StrCat(
      called.message(), ", for id ", ids.front(),
      ids.size() == 1 ? "" : absl::StrCat(" and ", ids.size() - 1, " others")));
}

// Returns the rows of each rank but the last ones, which may have fewer.
int64_t RowsOfRank(int64_t rows, uint32_t world_size) {
  return rows / world_size + (rows % world_size == 0 ? 0 : 1);
}

}  // namespace

TableSharding::TableSharding(Item::Sharding kind, std::string name,
                             std::vector<uint32_t> bounds)
    : declared_(true),
      kind_(kind),
      name_(std::move(name)),
      bounds_(std::move(bounds)) {}

TableSharding TableSharding::BySlices(std::vector<uint32_t> bounds) {
  return TableSharding(Item::Sharding::kBySlices, "", std::move(bounds));
}
TableSharding TableSharding::ByModulo() {
  return TableSharding(Item::Sharding::kByModulo);
}
TableSharding TableSharding::ByRange(std::vector<int64_t> bounds) {
  TableSharding sharding(Item::Sharding::kByRange);
  sharding.id_bounds_ = std::move(bounds);
  // An id before the first range wraps to a rank of no world.
  sharding.SetRankOf([bounds = sharding.id_bounds_](int64_t id, uint32_t) {
    const auto after = std::upper_bound(bounds.begin(), bounds.end(), id);
    return static_cast<uint32_t>(after - bounds.begin() - 1);
  });
  return sharding;
}
TableSharding TableSharding::ByRange(int64_t rows) {
  TableSharding sharding(Item::Sharding::kByRange);
  sharding.rows_ = rows;
  sharding.SetRankOf([rows](int64_t id, uint32_t world_size) {
    if (id < 0 || id >= rows) return world_size;
    return static_cast<uint32_t>(id / RowsOfRank(rows, world_size));
  });
  return sharding;
}
std::pair<int64_t, int64_t> TableSharding::RangeOf(uint32_t rank,
                                                   uint32_t world_size) const {
  if (!id_bounds_.empty()) {
    return {id_bounds_[rank], id_bounds_[rank + size_t{1}]};
  }
  const int64_t each = RowsOfRank(rows_, world_size);
  // Divides, because the product could overflow.
  const auto begin_of = [&](int64_t r) {
    return each == 0 || rows_ / each < r ? rows_ : r * each;
  };
  return {begin_of(rank), begin_of(rank + int64_t{1})};
}
TableSharding TableSharding::ByFunction(std::string name, RankOf rank_of) {
  TableSharding sharding(Item::Sharding::kCustom, std::move(name));
  if (rank_of == nullptr) return sharding;
  sharding.SetRankOf([name = sharding.name_, rank_of = std::move(rank_of)](
                         int64_t id, uint32_t world_size) {
    uint32_t rank = 0;
    CallWithContext(name, {&id, 1}, [&] { rank = rank_of(id, world_size); });
    return rank;
  });
  return sharding;
}
void TableSharding::SetRankOf(RankOf rank_of) {
  rank_of_ = std::move(rank_of);
  ranks_of_ = [rank_of = rank_of_](absl::Span<const int64_t> ids,
                                   uint32_t world_size,
                                   absl::Span<uint32_t> ranks) {
    for (size_t i = 0; i < ids.size(); ++i) {
      ranks[i] = rank_of(ids[i], world_size);
    }
  };
}
TableSharding TableSharding::ByBatchFunction(std::string name,
                                             RanksOf ranks_of) {
  TableSharding sharding(Item::Sharding::kCustom, std::move(name));
  if (ranks_of == nullptr) return sharding;
  sharding.ranks_of_ = [name = sharding.name_, ranks_of = std::move(ranks_of)](
                           absl::Span<const int64_t> ids, uint32_t world_size,
                           absl::Span<uint32_t> ranks) {
    if (ids.empty()) return;
    CallWithContext(name, ids, [&] { ranks_of(ids, world_size, ranks); });
  };
  sharding.rank_of_ = [ranks_of = sharding.ranks_of_](int64_t id,
                                                      uint32_t world_size) {
    uint32_t rank = 0;
    ranks_of({&id, 1}, world_size, {&rank, 1});
    return rank;
  };
  return sharding;
}
TableSharding TableSharding::Replicated() {
  return TableSharding(Item::Sharding::kReplicated);
}
TableSharding TableSharding::Unchecked() {
  return TableSharding(Item::Sharding::kUndeclared);
}

namespace internal {
namespace {

absl::Status CheckRanges(const TableSharding& sharding, uint32_t world_size) {
  const std::vector<int64_t>& bounds = sharding.id_bounds();
  if (bounds.empty() && sharding.rows() >= 0) return absl::OkStatus();
  if (bounds.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("ranges of ids cannot divide ", sharding.rows(), " rows"));
  }
  if (bounds.size() == world_size + size_t{1} &&
      std::is_sorted(bounds.begin(), bounds.end())) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "id bounds [", absl::StrJoin(bounds, ", "), "] do not ascend in ",
      world_size, " ranges; expected ", world_size + size_t{1}, " bounds"));
}

}  // namespace

// Checks a sharding before it is used: its bounds must give each rank one range
// and together cover all slices.
absl::Status CheckSharding(const TableSharding& sharding, uint32_t world_size) {
  if (sharding.kind() == Item::Sharding::kCustom) {
    if (absl::Status name = CheckName("sharding name", sharding.name());
        !name.ok()) {
      return name;
    }
    if (sharding.rank_of() != nullptr) return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrCat(
        "the function of sharding \"", sharding.name(), "\" is null"));
  }
  if (sharding.kind() == Item::Sharding::kByRange) {
    return CheckRanges(sharding, world_size);
  }
  const std::vector<uint32_t>& bounds = sharding.bounds();
  if (bounds.empty() || (bounds.size() == world_size + size_t{1} &&
                         bounds.front() == 0 && bounds.back() == kSlices &&
                         std::is_sorted(bounds.begin(), bounds.end()))) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "slice bounds [", absl::StrJoin(bounds, ", "),
      "] do not ascend from 0 to ", kSlices, " in ", world_size, " ranges"));
}

OwnRows::OwnRows(TableSharding sharding, SliceHash hash, uint32_t rank,
                 uint32_t world_size)
    : kind_(sharding.kind()),
      sharding_(std::move(sharding)),
      hash_(hash),
      rank_(rank),
      world_size_(world_size),
      modulo_(world_size) {
  const std::vector<uint32_t>& bounds = sharding_.bounds();
  if (kind_ == Item::Sharding::kBySlices && !bounds.empty()) {
    slices_ = {bounds[rank], bounds[rank + size_t{1}]};
  }
}

OwnRows::OwnRows(const SliceRange& slices, SliceHash hash, uint32_t rank,
                 uint32_t world_size)
    : kind_(Item::Sharding::kBySlices),
      hash_(hash),
      slices_(slices),
      rank_(rank),
      world_size_(world_size) {}

std::optional<uint32_t> OwnRows::RankOfId(int64_t id) const {
  switch (kind_) {
    case Item::Sharding::kBySlices: {
      const std::vector<uint32_t>& bounds = sharding_.bounds();
      if (bounds.empty()) return std::nullopt;
      // The last rank that begins at or before the slice; ranks with empty
      // ranges begin at the same slice as the next rank.
      const auto after =
          std::upper_bound(bounds.begin(), bounds.end(), SliceOf(id, hash_));
      return static_cast<uint32_t>(after - bounds.begin() - 1);
    }
    case Item::Sharding::kByModulo:
      return modulo_(id);
    case Item::Sharding::kCustom:
      return sharding_.rank_of()(id, world_size_);
    case Item::Sharding::kByRange: {
      const uint32_t rank = sharding_.rank_of()(id, world_size_);
      if (rank < world_size_) return rank;
      break;
    }
    case Item::Sharding::kUndeclared:
    case Item::Sharding::kReplicated:
      break;
  }
  return std::nullopt;
}

void OwnRows::RanksOf(absl::Span<const int64_t> ids,
                      absl::Span<uint32_t> ranks) const {
  if (by_function()) return sharding_.ranks_of()(ids, world_size_, ranks);
  std::transform(ids.begin(), ids.end(), ranks.begin(),
                 [this](int64_t id) { return RankOfId(id).value_or(0); });
}

std::optional<int64_t> OwnRows::FirstForeign(
    absl::Span<const int64_t> ids) const {
  std::vector<uint32_t> ranks(by_function() ? ids.size() : size_t{0});
  if (by_function()) RanksOf(ids, absl::MakeSpan(ranks));
  for (size_t i = 0; i < ids.size(); ++i) {
    const bool own =
        by_function() ? ranks[i] == rank_ : Has(ids[i], SliceOf(ids[i], hash_));
    if (!own) return ids[i];
  }
  return std::nullopt;
}

std::string OwnRows::DescribeNoRank(int64_t id) const {
  // Only functions and ranges can give an id no rank.
  if (!by_function()) return "";
  const uint32_t rank = sharding_.rank_of()(id, world_size_);
  if (rank < world_size_) return "";
  if (kind_ == Item::Sharding::kByRange) {
    return absl::StrCat(
        "id ", id, " is in no rank's range; TableSharding::ByRange gives ids ",
        sharding_.RangeOf(0, world_size_).first, " to below ",
        sharding_.RangeOf(world_size_ - 1, world_size_).second, " to the ",
        world_size_, " ranks; give it other bounds or more rows");
  }
  return absl::StrCat("sharding \"", sharding_.name(), "\" returns rank ", rank,
                      " for id ", id, "; expected less than the world size, ",
                      world_size_);
}

std::string OwnRows::DescribeForeign(int64_t id) const {
  std::string no_rank = DescribeNoRank(id);
  if (!no_rank.empty()) return no_rank;
  const std::optional<uint32_t> other = RankOfId(id);
  std::string text = absl::StrCat(
      "id ", id, " belongs to ",
      other.has_value() ? absl::StrCat("rank ", *other) : "another rank",
      " of ", world_size_, " by ", DescribeSharding(kind_, sharding_.name()));
  if (kind_ == Item::Sharding::kBySlices) {
    absl::StrAppend(&text, " (slice ", SliceOf(id, hash_), ", not in [",
                    slices_.begin, ", ", slices_.end, "))");
  }
  if (kind_ == Item::Sharding::kByRange) {
    const auto [begin, end] = sharding_.RangeOf(rank_, world_size_);
    absl::StrAppend(&text, " (not in [", begin, ", ", end, "))");
  }
  absl::StrAppend(&text, ", but rank ", rank_, " has it");
  return text;
}

}  // namespace internal
}  // namespace ckptdb
