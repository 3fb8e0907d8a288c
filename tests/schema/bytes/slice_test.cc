// SPDX-License-Identifier: Apache-2.0
#include "schema/types.h"

#include <limits>
#include <random>

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

}  // namespace
}  // namespace ckptdb::testing
