// SPDX-License-Identifier: Apache-2.0
// The slices and ranks of ids.
#include <limits>
#include <random>

#include "schema/bytes/modulo_rank.h"
#include "schema/types.h"
#include "tests/support/seed.h"
#include "tests/support/test.h"

namespace ckptdb::testing {
namespace {

TEST(SliceOf, ModuloTakesTheLowBitsOfTheUnsignedId) {
  EXPECT_EQ(SliceOf(0, SliceHash::kModulo), 0);
  EXPECT_EQ(SliceOf(65535, SliceHash::kModulo), 65535);
  EXPECT_EQ(SliceOf(65536, SliceHash::kModulo), 0);
  EXPECT_EQ(SliceOf(-1, SliceHash::kModulo), 65535);
  EXPECT_EQ(SliceOf(std::numeric_limits<int64_t>::min(), SliceHash::kModulo),
            0);
  EXPECT_EQ(SliceOf(std::numeric_limits<int64_t>::max(), SliceHash::kModulo),
            65535);
}

// Stored bytes depend on it: the finalizer of SplitMix64, whose first output
// for seed 0 is e220a8397b1dcdaf (state 9e3779b97f4a7c15).
TEST(SliceOf, MixIsTheFinalizerOfSplitMix64) {
  EXPECT_EQ(MixId(0), 0u);
  EXPECT_EQ(MixId(0x9e3779b97f4a7c15), 0xe220a8397b1dcdafu);
  EXPECT_EQ(SliceOf(static_cast<int64_t>(0x9e3779b97f4a7c15), SliceHash::kMix),
            0xcdaf);
}

TEST(SliceRange, ContainsItsBeginAndNotItsEnd) {
  const SliceRange range{10, 12};
  EXPECT_FALSE(range.Contains(9));
  EXPECT_TRUE(range.Contains(10));
  EXPECT_TRUE(range.Contains(11));
  EXPECT_FALSE(range.Contains(12));
  EXPECT_TRUE(SliceRange{}.Contains(0));
  EXPECT_TRUE(SliceRange{}.Contains(kSlices - 1));
}

TEST(EvenSliceBounds, CoverAllSlicesEvenly) {
  std::mt19937_64 random(TestSeed());
  std::vector<uint32_t> sizes = {1, 2, 3, 7, 65535, kMaxWorldSize};
  for (int i = 0; i < 20; ++i) sizes.push_back(1 + random() % kMaxWorldSize);
  for (const uint32_t world_size : sizes) {
    const std::vector<uint32_t> bounds = EvenSliceBounds(world_size);
    ASSERT_EQ(bounds.size(), world_size + 1u);
    EXPECT_EQ(bounds.front(), 0u);
    EXPECT_EQ(bounds.back(), kSlices);
    for (uint32_t rank = 0; rank < world_size; ++rank) {
      const uint32_t slices = bounds[rank + 1] - bounds[rank];
      ASSERT_GE(slices, kSlices / world_size) << world_size << " " << rank;
      ASSERT_LE(slices, kSlices / world_size + 1) << world_size << " " << rank;
    }
  }
}

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
  EXPECT_EQ(ShardingKindName(Item::Sharding::kByRange), "range");
  EXPECT_EQ(ShardingKindName(static_cast<Item::Sharding>(kShardingKinds)),
            "unknown");
  EXPECT_EQ(DescribeSharding(Item::Sharding::kCustom, "a\nb"),
            "custom \"a\\nb\"");
}

}  // namespace
}  // namespace ckptdb::testing
