// SPDX-License-Identifier: Apache-2.0
// The shards of a tensor: on one rank any number, which do not overlap; on
// several ranks replicas, too. Internal to the library.
#ifndef CKPTDB_SCHEMA_RECORDS_SHARDS_H_
#define CKPTDB_SCHEMA_RECORDS_SHARDS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "schema/types.h"

namespace ckptdb::internal {

// The order of a rank's items: by kind and name, shards of a tensor by offset,
// and those at the same offset, one of which is empty, by shape. Data keys have
// the same order.
bool ItemLess(const Item& a, const Item& b);

// Returns whether both are shards of one tensor.
bool SameTensor(const Item& a, const Item& b);

// Returns the number of chunks of this many bytes, and the first number in keys
// after those of an item.
uint64_t ChunkCount(uint64_t raw_bytes);
uint64_t EndChunk(const Item& item);

// Returns two shards of a tensor that overlap, or nothing. Equal shards are
// replicas, and do not.
using ShardPair = std::pair<const Item*, const Item*>;
std::optional<ShardPair> FindOverlap(std::vector<const Item*> shards);

// Returns what is wrong with the shards of a tensor on one rank, in their
// order: more than kMaxShards, different dtypes or global shapes, equal or
// overlapping boxes. Empty if nothing is.
std::string FaultOfShards(std::vector<const Item*> shards);

// Returns whether a record of these items, in their order, needs
// kShardsFormatVersion.
bool HasShards(absl::Span<const Item> items);

// Return DataLoss for chunk numbers beyond 2^32 or of an item that is no
// tensor; and for items, in their order, whose shards have a fault or share
// chunks.
absl::Status CheckFirstChunk(const Item& item);
absl::Status CheckShards(absl::Span<const Item> items);

}  // namespace ckptdb::internal

#endif  // CKPTDB_SCHEMA_RECORDS_SHARDS_H_
