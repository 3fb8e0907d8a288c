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

// Adds the sharding's name and the id to an exception of the function, because
// a call may pass through many tables.
std::function<uint32_t(int64_t, uint32_t)> WithContext(
    const std::string& name,
    std::function<uint32_t(int64_t, uint32_t)> rank_of) {
  return [what = absl::StrCat("the function of sharding \"", name, "\""),
          rank_of = std::move(rank_of)](int64_t id, uint32_t world_size) {
    absl::StatusOr<uint32_t> rank =
        internal::CallGuarded(what, [&] { return rank_of(id, world_size); });
    if (rank.ok()) return *rank;
    // Keeps the kind of the exception, so that lack of memory remains
    // ResourceExhausted.
    if (absl::IsResourceExhausted(rank.status())) throw std::bad_alloc();
    throw std::runtime_error(
        absl::StrCat(rank.status().message(), ", for id ", id));
  };
}

}  // namespace

TableSharding::TableSharding(Item::Sharding kind, std::string name,
                             std::vector<uint32_t> bounds,
                             std::function<uint32_t(int64_t, uint32_t)> rank_of)
    : declared_(true),
      kind_(kind),
      name_(std::move(name)),
      bounds_(std::move(bounds)),
      rank_of_(std::move(rank_of)) {}

TableSharding TableSharding::BySlices(std::vector<uint32_t> bounds) {
  return TableSharding(Item::Sharding::kBySlices, "", std::move(bounds));
}
TableSharding TableSharding::ByModulo() {
  return TableSharding(Item::Sharding::kByModulo);
}
TableSharding TableSharding::ByFunction(
    std::string name, std::function<uint32_t(int64_t, uint32_t)> rank_of) {
  if (rank_of != nullptr) rank_of = WithContext(name, std::move(rank_of));
  return TableSharding(Item::Sharding::kCustom, std::move(name), {},
                       std::move(rank_of));
}
TableSharding TableSharding::Replicated() {
  return TableSharding(Item::Sharding::kReplicated);
}
TableSharding TableSharding::Unchecked() {
  return TableSharding(Item::Sharding::kUndeclared);
}

namespace internal {

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
    case Item::Sharding::kUndeclared:
    case Item::Sharding::kReplicated:
      break;
  }
  return std::nullopt;
}

std::string OwnRows::DescribeNoRank(int64_t id) const {
  // Only a function can name a rank that does not exist.
  if (kind_ != Item::Sharding::kCustom) return "";
  const uint32_t rank = sharding_.rank_of()(id, world_size_);
  if (rank < world_size_) return "";
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
  absl::StrAppend(&text, ", but rank ", rank_, " has it");
  return text;
}

}  // namespace internal
}  // namespace ckptdb
