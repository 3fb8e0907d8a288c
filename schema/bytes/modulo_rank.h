// SPDX-License-Identifier: Apache-2.0
// The rank of an id if rows are sharded by modulo.
#ifndef CKPTDB_SCHEMA_BYTES_MODULO_RANK_H_
#define CKPTDB_SCHEMA_BYTES_MODULO_RANK_H_

#include <cstdint>

namespace ckptdb {

// Computes uint64(id) % world_size without a division per id: three products
// with a precomputed reciprocal (Lemire, Kaser, Kurz: Faster remainder by
// direct computation, 2019), 16 bits of the quotient at a time.
class ModuloRank {
 public:
  // 1 to kMaxWorldSize.
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

#endif  // CKPTDB_SCHEMA_BYTES_MODULO_RANK_H_
