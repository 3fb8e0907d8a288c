// SPDX-License-Identifier: Apache-2.0
#include "schema/records/shards.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <tuple>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "schema/bytes/limits.h"
#include "schema/bytes/shape.h"
#include "schema/records/envelope.h"
#include "schema/status.h"

namespace ckptdb::internal {
namespace {

absl::Status BadShard(const Item& item, absl::string_view why) {
  return BadField(
      RecordKind::kRank,
      absl::StrCat("item \"", absl::Utf8SafeCHexEscape(item.name), "\""), why);
}

// Returns the dimension in which the shards have the most distinct offsets.
size_t MostCutDimension(absl::Span<const Item* const> shards) {
  size_t most_cut = 0;
  size_t most_offsets = 0;
  for (size_t d = 0; d < shards.front()->offset.size(); ++d) {
    std::set<int64_t> offsets;
    for (const Item* shard : shards) offsets.insert(shard->offset[d]);
    if (offsets.size() <= most_offsets) continue;
    most_offsets = offsets.size();
    most_cut = d;
  }
  return most_cut;
}

// Items of one version are numbered in their order, and items that are borrowed
// keep their numbers.
absl::Status CheckChunkNumbers(absl::Span<const Item> shards) {
  std::map<Version, uint64_t> next;
  for (const Item& shard : shards) {
    uint64_t& end = next[shard.data_version];
    if (shard.first_chunk < end) {
      return BadShard(
          shard, absl::StrCat("has a shard at ", ToString(shard.offset),
                              " with first chunk ", shard.first_chunk,
                              "; expected at least ", end,
                              ", where the chunks of the shard before end"));
    }
    end = EndChunk(shard);
  }
  return absl::OkStatus();
}

absl::Status CheckOneTensor(absl::Span<const Item> shards) {
  std::vector<const Item*> pointers;
  for (const Item& shard : shards) pointers.push_back(&shard);
  const std::string fault = FaultOfShards(std::move(pointers));
  if (!fault.empty()) return BadShard(shards.front(), fault);
  return CheckChunkNumbers(shards);
}

std::string BoxOf(const Item& shard) {
  return absl::StrCat(ToString(shard.shape), " at ", ToString(shard.offset));
}

// Returns why two shards, one of which follows the other, are not of one
// tensor.
std::string FaultOfNext(const Item& before, const Item& shard) {
  if (before.dtype != shard.dtype) {
    return absl::StrCat("has shards of dtypes ", DTypeName(before.dtype),
                        " and ", DTypeName(shard.dtype));
  }
  if (before.global_shape != shard.global_shape) {
    return absl::StrCat("has shards of global shapes ",
                        ToString(before.global_shape), " and ",
                        ToString(shard.global_shape));
  }
  if (before.offset == shard.offset && before.shape == shard.shape) {
    return absl::StrCat("has two shards of shape ", BoxOf(shard),
                        "; shards of a rank have distinct offsets");
  }
  return "";
}

}  // namespace

bool SameTensor(const Item& a, const Item& b) {
  return a.kind == Item::Kind::kTensor && b.kind == Item::Kind::kTensor &&
         a.name == b.name;
}

bool ItemLess(const Item& a, const Item& b) {
  if (!SameTensor(a, b)) {
    return std::tie(a.kind, a.name) < std::tie(b.kind, b.name);
  }
  return std::tie(a.offset, a.shape) < std::tie(b.offset, b.shape);
}

uint64_t ChunkCount(uint64_t raw_bytes) {
  return raw_bytes / kChunkBytes + (raw_bytes % kChunkBytes != 0 ? 1 : 0);
}

uint64_t EndChunk(const Item& item) {
  return item.first_chunk + uint64_t{item.chunk_hashes.size()};
}

// Sorted by offset in the dimension with the most cuts, shards that can overlap
// are adjacent: comparing all pairs takes too long with many shards.
std::optional<ShardPair> FindOverlap(std::vector<const Item*> shards) {
  if (shards.size() < 2) return std::nullopt;
  const size_t cut = MostCutDimension(shards);
  std::sort(shards.begin(), shards.end(), [&](const Item* a, const Item* b) {
    if (!a->offset.empty() && a->offset[cut] != b->offset[cut]) {
      return a->offset[cut] < b->offset[cut];
    }
    return std::tie(a->offset, a->shape) < std::tie(b->offset, b->shape);
  });
  Box both;
  for (size_t i = 0; i < shards.size(); ++i) {
    const Item& a = *shards[i];
    for (size_t j = i + 1; j < shards.size(); ++j) {
      const Item& b = *shards[j];
      // All later shards begin beyond this one.
      if (!a.shape.empty() && b.offset[cut] >= a.offset[cut] + a.shape[cut]) {
        break;
      }
      // A replica, which is compared with the others in a later iteration.
      if (a.offset == b.offset && a.shape == b.shape) break;
      if (Intersect({a.offset, a.shape}, {b.offset, b.shape}, &both)) {
        return ShardPair(&a, &b);
      }
    }
  }
  return std::nullopt;
}

std::string FaultOfShards(std::vector<const Item*> shards) {
  if (shards.size() > kMaxShards) {
    return absl::StrCat("has ", shards.size(), " shards; the limit is ",
                        kMaxShards);
  }
  for (size_t i = 1; i < shards.size(); ++i) {
    std::string fault = FaultOfNext(*shards[i - 1], *shards[i]);
    if (!fault.empty()) return fault;
  }
  const auto overlap = FindOverlap(std::move(shards));
  if (!overlap.has_value()) return "";
  return absl::StrCat("has shards that overlap: ", BoxOf(*overlap->first),
                      " and ", BoxOf(*overlap->second));
}

bool HasShards(absl::Span<const Item> items) {
  for (size_t i = 0; i < items.size(); ++i) {
    if (items[i].first_chunk > 0) return true;
    if (i > 0 && SameTensor(items[i - 1], items[i])) return true;
  }
  return false;
}

absl::Status CheckFirstChunk(const Item& item) {
  constexpr uint64_t kEnd = uint64_t{1} << 32;
  if (item.kind != Item::Kind::kTensor && item.first_chunk > 0) {
    return BadShard(item, absl::StrCat("has first chunk ", item.first_chunk,
                                       ", which only a tensor may have"));
  }
  if (EndChunk(item) <= kEnd) return absl::OkStatus();
  return BadShard(item,
                  absl::StrCat("has first chunk ", item.first_chunk, " and ",
                               item.chunk_hashes.size(),
                               " chunks; their numbers are below ", kEnd));
}

absl::Status CheckShards(absl::Span<const Item> items) {
  for (size_t begin = 0, end = 0; begin < items.size(); begin = end) {
    for (end = begin + 1; end < items.size(); ++end) {
      if (!SameTensor(items[begin], items[end])) break;
    }
    if (end - begin == 1) continue;
    CKPTDB_RETURN_IF_ERROR(CheckOneTensor(items.subspan(begin, end - begin)));
  }
  return absl::OkStatus();
}

}  // namespace ckptdb::internal
