// SPDX-License-Identifier: Apache-2.0
#include <map>
#include <vector>

#include "tests/support/status_matchers.h"
#include "train_ctr/log.h"
#include "train_ctr/random.h"

namespace train_ctr {
namespace {

using ::ckptdb::testing::StatusIs;
using ::testing::HasSubstr;

constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;

GeneratedLogOptions SmallLog() {
  GeneratedLogOptions options;
  options.examples = 20000;
  options.users = 1000;
  options.items = 1000;
  return options;
}

std::vector<Example> ReadAll(Log& source, LogPosition from) {
  std::vector<Example> examples;
  EXPECT_OK(source.Seek(from));
  Example example;
  while (source.Next(source.end(), &example).value()) {
    examples.push_back(example);
  }
  return examples;
}

TEST(GeneratedLogTest, SameSeedSameLog) {
  ASSERT_OK_AND_ASSIGN(auto a, NewGeneratedLog(SmallLog()));
  ASSERT_OK_AND_ASSIGN(auto b, NewGeneratedLog(SmallLog()));
  const auto from_a = ReadAll(*a, a->begin());
  const auto from_b = ReadAll(*b, b->begin());
  ASSERT_EQ(from_a.size(), 20000u);
  ASSERT_EQ(from_b.size(), 20000u);
  for (size_t i = 0; i < from_a.size(); ++i) {
    ASSERT_EQ(from_a[i].ids, from_b[i].ids);
    ASSERT_EQ(from_a[i].label, from_b[i].label);
  }
}

TEST(GeneratedLogTest, OtherSeedOtherLog) {
  GeneratedLogOptions options = SmallLog();
  ASSERT_OK_AND_ASSIGN(auto a, NewGeneratedLog(options));
  options.seed = 2;
  ASSERT_OK_AND_ASSIGN(auto b, NewGeneratedLog(options));
  EXPECT_NE(a->identity(), b->identity());
  Example of_a;
  Example of_b;
  int same = 0;
  for (int i = 0; i < 100; ++i) {
    ASSERT_TRUE(a->Next(a->end(), &of_a).value());
    ASSERT_TRUE(b->Next(b->end(), &of_b).value());
    same += of_a.ids == of_b.ids;
  }
  EXPECT_LT(same, 50);
}

TEST(GeneratedLogTest, SeeksAnywhere) {
  ASSERT_OK_AND_ASSIGN(auto source, NewGeneratedLog(SmallLog()));
  const auto all = ReadAll(*source, source->begin());
  const auto tail = ReadAll(*source, source->tail());
  ASSERT_EQ(tail.size(), 2000u);
  EXPECT_EQ(tail.front().ids, all[18000].ids);
  EXPECT_EQ(tail.back().ids, all.back().ids);
  EXPECT_THAT(source->Seek({20001, 0}),
              StatusIs(absl::StatusCode::kOutOfRange, HasSubstr("20001")));
}

TEST(GeneratedLogTest, FirstIdsAreTheMostFrequent) {
  const ZipfDistribution zipf(1000, 1.0);
  std::map<uint64_t, int> counts;
  Random random(1);
  for (int i = 0; i < 100000; ++i) ++counts[zipf.RankAt(random.NextUnit())];
  // Rank r has the share 1 / (r + 1) / H(1000), H(1000) = 7.485.
  EXPECT_NEAR(counts[0], 13359, 500);
  EXPECT_NEAR(counts[1], 6680, 400);
  EXPECT_NEAR(counts[9], 1336, 200);
  EXPECT_LE(counts.rbegin()->first, 999u);
}

TEST(GeneratedLogTest, LabelsFollowPlantedWeights) {
  ASSERT_OK_AND_ASSIGN(auto source, NewGeneratedLog(SmallLog()));
  std::map<int64_t, std::pair<double, int>> clicks_of_user;
  for (const Example& example : ReadAll(*source, source->begin())) {
    clicks_of_user[example.ids[0]].first += example.label;
    ++clicks_of_user[example.ids[0]].second;
  }
  double lowest = 1;
  double highest = 0;
  for (const auto& [user, clicks] : clicks_of_user) {
    if (clicks.second < 100) continue;
    lowest = std::min(lowest, clicks.first / clicks.second);
    highest = std::max(highest, clicks.first / clicks.second);
  }
  EXPECT_LT(lowest, 0.25);
  EXPECT_GT(highest, 0.55);
}

TEST(GeneratedLogTest, RefusesOptionsOutOfRange) {
  GeneratedLogOptions options;
  options.users = 0;
  EXPECT_THAT(NewGeneratedLog(options),
              StatusIs(kInvalid, HasSubstr("0 users")));
  options = {};
  options.items = 100'000'001;
  EXPECT_THAT(NewGeneratedLog(options),
              StatusIs(kInvalid, HasSubstr("100000001 items")));
  options = {};
  options.examples = 1;
  EXPECT_THAT(NewGeneratedLog(options),
              StatusIs(kInvalid, HasSubstr("1 examples")));
  options = {};
  options.exponent = -1;
  EXPECT_THAT(NewGeneratedLog(options),
              StatusIs(kInvalid, HasSubstr("exponent -1")));
  options = {};
  options.holdout = 0;
  EXPECT_THAT(NewGeneratedLog(options),
              StatusIs(kInvalid, HasSubstr("holdout 0")));
}

}  // namespace
}  // namespace train_ctr
