// SPDX-License-Identifier: Apache-2.0
// The hash of marked ids; internal to db/.
#ifndef CKPTDB_DB_TRACK_MARK_HASH_H_
#define CKPTDB_DB_TRACK_MARK_HASH_H_

#include <cstdint>

namespace ckptdb::internal {

// A bijection whose high bits depend on all bits of the id; cheaper than MixId.
// It is invertible, so the hash can be stored instead of the id.
inline constexpr uint64_t kSpread = 0x9e3779b97f4a7c15;
inline constexpr uint64_t kSpreadInverse = 0xf1de83e19937733d;
static_assert(kSpread * kSpreadInverse == 1);

constexpr uint64_t SpreadId(int64_t id) {
  const auto bits = static_cast<uint64_t>(id);
  return (bits ^ (bits >> 32)) * kSpread;
}

constexpr int64_t UnspreadId(uint64_t hash) {
  const uint64_t bits = hash * kSpreadInverse;
  return static_cast<int64_t>(bits ^ (bits >> 32));
}

}  // namespace ckptdb::internal

#endif  // CKPTDB_DB_TRACK_MARK_HASH_H_
