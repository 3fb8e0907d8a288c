// SPDX-License-Identifier: Apache-2.0
#include "db/track/mark_filter.h"

#include <numeric>

#include "gtest/gtest.h"

namespace ckptdb::internal {
namespace {

using FilteredIds = std::vector<int64_t>;

constexpr int64_t kHotId = -7;

FilteredIds IdsFrom(int64_t first, size_t count) {
  FilteredIds ids(count);
  std::iota(ids.begin(), ids.end(), first);
  return ids;
}

FilteredIds Unknown(MarkFilter* filter, const FilteredIds& ids) {
  std::vector<uint64_t> hashes(ids.size());
  hashes.resize(filter->Keep(ids, hashes.data()));
  FilteredIds unknown;
  for (const uint64_t hash : hashes) unknown.push_back(UnspreadId(hash));
  return unknown;
}

TEST(MarkFilterTest, RemembersWhatItWasGiven) {
  MarkFilter filter;
  EXPECT_EQ(Unknown(&filter, {1, 2, 1}), (FilteredIds{1, 2}));
  EXPECT_EQ(Unknown(&filter, {2, 3}), (FilteredIds{3}));
}

TEST(MarkFilterTest, ForgetsWhatItIsTold) {
  MarkFilter filter;
  Unknown(&filter, IdsFrom(0, 100));
  filter.Forget({5});
  EXPECT_EQ(Unknown(&filter, {5, 6}), (FilteredIds{5}));
  filter.Clear();
  EXPECT_EQ(Unknown(&filter, {5, 6}), (FilteredIds{5, 6}));
}

// How many of 16 batches of a hot id were known at once.
int KnownBatches(MarkFilter* filter) {
  constexpr size_t kBatch = 2048;
  const FilteredIds hot(kBatch, kHotId);
  int known = 0;
  for (int i = 0; i < 16; ++i) known += Unknown(filter, hot).size() < 2 ? 1 : 0;
  return known;
}

TEST(MarkFilterTest, LetsIdsPassThatDoNotRepeat) {
  MarkFilter filter;
  EXPECT_EQ(KnownBatches(&filter), 16);
  const FilteredIds distinct = IdsFrom(0, 100'000);
  EXPECT_EQ(Unknown(&filter, distinct), distinct);
  // Passing ids are not looked up, for some time.
  EXPECT_EQ(Unknown(&filter, {1, 1}), (FilteredIds{1, 1}));
  const int known = KnownBatches(&filter);
  EXPECT_GT(known, 4);
  EXPECT_LT(known, 16);
  EXPECT_EQ(KnownBatches(&filter), 16);
}

}  // namespace
}  // namespace ckptdb::internal
