// SPDX-License-Identifier: Apache-2.0
#include "schema/types.h"

#include <limits>
#include <random>

#include "schema/bytes/modulo_rank.h"
#include "tests/support/seed.h"
#include "tests/support/test.h"

namespace ckptdb::testing {
namespace {

TEST(ModuloRank, UsesTheUnsignedId) {
  std::mt19937_64 random(TestSeed());
  for (const uint32_t world :
       {1u, 2u, 3u, 5u, 7u, 8u, 48u, 1000u, 32767u, 65535u, kMaxWorldSize}) {
    const ModuloRank rank_of(world);
    const auto expect = [&](uint64_t id) {
      EXPECT_EQ(rank_of(static_cast<int64_t>(id)), id % world)
          << id << " of " << world;
    };
    for (uint64_t near = 0; near < 200; ++near) {
      expect(near);
      expect(~near);
      expect((uint64_t{1} << 32) + near - 100);
      expect((uint64_t{1} << 63) + near - 100);
      expect(~uint64_t{0} / world * world + near - 100);
    }
    for (int i = 0; i < 10'000; ++i) expect(random() >> (random() % 64));
  }
}

TEST(ModuloRank, HandlesNegativeIds) {
  EXPECT_EQ(ModuloRank(3)(-1), 0u);
  EXPECT_EQ(ModuloRank(3)(-2), 2u);
  EXPECT_EQ(ModuloRank(3)(std::numeric_limits<int64_t>::min()), 2u);
  EXPECT_EQ(ModuloRank(4)(-1), 3u);
}

TEST(ShardingKindName, NamesEachKind) {
  EXPECT_EQ(ShardingKindName(Item::Sharding::kUndeclared), "undeclared");
  EXPECT_EQ(ShardingKindName(Item::Sharding::kBySlices), "slices");
  EXPECT_EQ(ShardingKindName(Item::Sharding::kByModulo), "modulo");
  EXPECT_EQ(ShardingKindName(Item::Sharding::kCustom), "custom");
  EXPECT_EQ(ShardingKindName(Item::Sharding::kReplicated), "replicated");
  EXPECT_EQ(ShardingKindName(static_cast<Item::Sharding>(kShardingKinds)),
            "unknown");
  EXPECT_EQ(DescribeSharding(Item::Sharding::kCustom, "a\nb"),
            "custom \"a\\nb\"");
}

}  // namespace
}  // namespace ckptdb::testing
