// SPDX-License-Identifier: Apache-2.0
#include "db/meta/consistency.h"

#include <algorithm>
#include <cstdint>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "schema/bytes/shape.h"
#include "schema/records/shards.h"
#include "schema/records/table_schema.h"
#include "schema/status.h"
#include "schema/types.h"

namespace ckptdb::internal {
namespace {

struct Held {
  uint32_t rank;
  const Item* item;
};

absl::Status Disagree(const Held& a, const Held& b, absl::string_view why) {
  return absl::InvalidArgumentError(
      absl::StrCat(ItemKindName(a.item->kind), " \"", a.item->name,
                   "\" of ranks ", a.rank, " and ", b.rank, ": ", why));
}

// Compares each shard only with the first: shards that agree with one agree
// with each other.
absl::Status CheckTensors(const Held& a, const Held& b) {
  if (a.item->dtype != b.item->dtype) {
    return Disagree(a, b,
                    absl::StrCat("dtypes ", DTypeName(a.item->dtype), " and ",
                                 DTypeName(b.item->dtype)));
  }
  if (a.item->global_shape == b.item->global_shape) return absl::OkStatus();
  return Disagree(a, b,
                  absl::StrCat("global shapes ", ToString(a.item->global_shape),
                               " and ", ToString(b.item->global_shape)));
}

// Tables must agree on the properties that a reader takes from the first rank
// only, and on the kind of run: with a base run on one rank and a delta run on
// another, the table's chain would begin at two versions.
absl::Status CheckTables(const Held& a, const Held& b) {
  if (!SameSchema(*a.item, b.item->slots, b.item->slice_hash)) {
    return Disagree(a, b, "their slots or slice hashes differ");
  }
  if (a.item->sharding != b.item->sharding ||
      a.item->sharding_name != b.item->sharding_name) {
    return Disagree(
        a, b,
        absl::StrCat(
            "shardings ",
            DescribeSharding(a.item->sharding, a.item->sharding_name), " and ",
            DescribeSharding(b.item->sharding, b.item->sharding_name)));
  }
  if (a.item->run == b.item->run) return absl::OkStatus();
  const Held& base = a.item->run == Item::Run::kBase ? a : b;
  return Disagree(
      a, b,
      absl::StrCat("one saved all rows, the other changes; rank ", base.rank,
                   " saved all rows: ",
                   base.item->base_reason.empty() ? "no changes were given"
                                                  : base.item->base_reason));
}

// Only rank 0 saves the rows of a replicated table.
absl::Status CheckReplicated(const Held& held, bool is_first) {
  const Item& item = *held.item;
  if (item.sharding != Item::Sharding::kReplicated || held.rank == 0) {
    return absl::OkStatus();
  }
  const std::string place =
      absl::StrCat(ItemKindName(item.kind), " \"", item.name, "\"");
  if (is_first) {
    return absl::InvalidArgumentError(absl::StrCat(
        place,
        " is replicated, but rank 0, which saves its rows, lacks it; rank ",
        held.rank, " has it; add it on all ranks"));
  }
  if (item.rows == 0 && item.erased_rows == 0) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      place, " is replicated, so only rank 0 may save its rows, but rank ",
      held.rank, " saved ", item.rows, " rows and ", item.erased_rows,
      " erased ids"));
}

// Ranges of ids follow each other from rank to rank.
absl::Status CheckRanges(const std::vector<Held>& tables) {
  for (size_t t = 1; t < tables.size(); ++t) {
    const Held& a = tables[t - 1];
    const Held& b = tables[t];
    if (a.item->sharding != Item::Sharding::kByRange ||
        a.item->end_id == b.item->first_id) {
      continue;
    }
    return Disagree(a, b,
                    absl::StrCat("ids up to below ", a.item->end_id,
                                 " and ids from ", b.item->first_id,
                                 "; declare the same TableSharding::ByRange"));
  }
  return absl::OkStatus();
}

// With sharding by modulo, slices or ranges each rank owns some ids. If a rank
// forgets to add the table, its rows would be missing silently.
absl::Status CheckOnAllRanks(const std::vector<Held>& tables,
                             absl::Span<const StepRecord::Rank> ranks) {
  const Item& item = *tables.front().item;
  if (item.sharding != Item::Sharding::kByModulo &&
      item.sharding != Item::Sharding::kByRange &&
      item.sharding != Item::Sharding::kBySlices) {
    return absl::OkStatus();
  }
  size_t next = 0;  // both are in the order of the ranks
  for (const StepRecord::Rank& rank : ranks) {
    if (next < tables.size() && tables[next].rank == rank.rank) {
      ++next;
      continue;
    }
    return absl::InvalidArgumentError(absl::StrCat(
        "table \"", item.name, "\" of rank ", tables.front().rank,
        " is sharded by ", DescribeSharding(item.sharding, item.sharding_name),
        ", and rank ", rank.rank,
        " has no such table; add it on every rank, even without rows"));
  }
  return absl::OkStatus();
}

absl::Status CheckDisjoint(const std::vector<Held>& shards) {
  std::vector<const Item*> items;
  for (const Held& held : shards) items.push_back(held.item);
  const auto overlap = FindOverlap(std::move(items));
  if (!overlap.has_value()) return absl::OkStatus();
  const auto find = [&](const Item* item) {
    return *std::ranges::find(shards, item, &Held::item);
  };
  const auto& [a, b] = *overlap;
  Box both;
  Intersect({a->offset, a->shape}, {b->offset, b->shape}, &both);
  return Disagree(find(a), find(b),
                  absl::StrCat("shards overlap in ", ToString(both.shape),
                               " at ", ToString(both.offset)));
}

// Finds the first element, in row-major order, that no shard covers. `at` holds
// the coordinates of the first `at->size()` dimensions, and `shards` those
// shards that cover them. Each dimension is cut where a shard ends.
bool FindGap(const std::vector<const Item*>& shards, const Shape& global,
             Shape* at) {
  const size_t d = at->size();
  if (d == global.size()) return shards.empty();
  at->push_back(0);
  while (at->back() < global[d]) {
    std::vector<const Item*> here;
    int64_t end = global[d];
    for (const Item* shard : shards) {
      const int64_t shard_end = shard->offset[d] + shard->shape[d];
      if (at->back() < shard->offset[d] || at->back() >= shard_end) continue;
      here.push_back(shard);
      end = std::min(end, shard_end);
    }
    if (FindGap(here, global, at)) return true;
    at->back() = end;
  }
  at->pop_back();
  return false;
}

absl::StatusOr<int64_t> ElementsOf(const Item& item, const Shape& shape) {
  return ElementCount(shape, DTypeBytes(item.dtype));
}

// Disjoint shards leave a gap if they have fewer elements than the tensor.
// Identical shards count once.
absl::Status CheckNoGap(const std::vector<Held>& shards) {
  const Item& any = *shards.front().item;
  std::set<std::pair<Shape, Shape>> boxes;
  std::vector<const Item*> distinct;
  int64_t elements = 0;
  for (const Held& held : shards) {
    if (!boxes.emplace(held.item->offset, held.item->shape).second) continue;
    CKPTDB_ASSIGN_OR_RETURN(const int64_t more,
                            ElementsOf(any, held.item->shape));
    elements += more;
    if (more > 0) distinct.push_back(held.item);
  }
  // Comparing the counts is fast. The gap is located only if they differ.
  CKPTDB_ASSIGN_OR_RETURN(const int64_t all, ElementsOf(any, any.global_shape));
  Shape at;
  if (elements == all || !FindGap(distinct, any.global_shape, &at)) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      ItemKindName(any.kind), " \"", any.name, "\": the shards have ", elements,
      " of the ", all, " elements of ", ToString(any.global_shape),
      "; missing element at ", ToString(at),
      "; together, the ranks' shards must cover the global shape"));
}

}  // namespace

absl::Status CheckRanksAgree(absl::Span<const StepRecord::Rank> ranks) {
  std::unordered_map<std::string, std::vector<Held>> tensors;
  std::unordered_map<std::string, std::vector<Held>> tables;
  for (const StepRecord::Rank& rank : ranks) {
    for (const Item& item : rank.items) {
      const Held held{rank.rank, &item};
      if (item.kind == Item::Kind::kTensor) {
        std::vector<Held>& shards = tensors[item.name];
        if (!shards.empty()) {
          CKPTDB_RETURN_IF_ERROR(CheckTensors(shards.front(), held));
        }
        shards.push_back(held);
      } else if (item.kind == Item::Kind::kRows) {
        std::vector<Held>& shards = tables[item.name];
        if (!shards.empty()) {
          CKPTDB_RETURN_IF_ERROR(CheckTables(shards.front(), held));
        }
        CKPTDB_RETURN_IF_ERROR(CheckReplicated(held, shards.empty()));
        shards.push_back(held);
      }
    }
  }
  // Checks overlaps first: only disjoint shards reveal a gap by their number of
  // elements.
  for (const auto& [name, shards] : tensors) {
    CKPTDB_RETURN_IF_ERROR(CheckDisjoint(shards));
    CKPTDB_RETURN_IF_ERROR(CheckNoGap(shards));
  }
  for (const auto& [name, shards] : tables) {
    CKPTDB_RETURN_IF_ERROR(CheckOnAllRanks(shards, ranks));
    CKPTDB_RETURN_IF_ERROR(CheckRanges(shards));
  }
  return absl::OkStatus();
}

}  // namespace ckptdb::internal
