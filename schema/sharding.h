// How the rows of a table are divided among ranks, as a step records it.
#ifndef CKPTDB_SCHEMA_SHARDING_H_
#define CKPTDB_SCHEMA_SHARDING_H_

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"

namespace ckptdb {

// The numbers are stored and never change.
enum class ShardingKind : uint8_t {
  kUndeclared = 0,  // by slices where the step has slice bounds, else unknown
  kBySlices = 1,    // by the slice bounds of the step
  kByModulo = 2,    // uint64(id) % world_size, also of negative ids
  kCustom = 3,      // by a function of the trainer's, which has a name
  kReplicated = 4,  // the same rows on all ranks; rank 0 saves them
};
inline constexpr uint8_t kShardingKinds = 5;

// Returns "undeclared", "slices", "modulo", "custom" or "replicated"; "unknown"
// for another number.
absl::string_view ShardingKindName(ShardingKind kind);

// Returns the same for messages, with the name: `custom "hash_v2"`.
std::string DescribeSharding(ShardingKind kind, absl::string_view name);

// Computes uint64(id) % world_size without a division for each id, by three
// products with a precomputed reciprocal, 16 bits of the quotient at a time
// (Lemire, Kaser, Kurz: Faster remainder by direct computation, 2019).
class ModuloRank {
 public:
  // `world_size` is 1 to kMaxWorldSize.
  explicit ModuloRank(uint32_t world_size)
      : world_size_(world_size), reciprocal_(~uint64_t{0} / world_size + 1) {}

  uint32_t operator()(int64_t id) const {
    const auto bits = static_cast<uint64_t>(id);
    uint32_t rank = Reduce(static_cast<uint32_t>(bits >> 32));
    rank = Reduce(rank << 16 | static_cast<uint32_t>(bits >> 16 & 0xffff));
    return Reduce(rank << 16 | static_cast<uint32_t>(bits & 0xffff));
  }

 private:
  __extension__ using Uint128 = unsigned __int128;

  uint32_t Reduce(uint32_t number) const {
    const uint64_t fraction = reciprocal_ * number;
    return static_cast<uint32_t>((Uint128{fraction} * world_size_) >> 64);
  }

  uint32_t world_size_;
  uint64_t reciprocal_;  // 2^64 / world_size, rounded up; 0 of 1 rank
};

}  // namespace ckptdb

#endif  // CKPTDB_SCHEMA_SHARDING_H_
