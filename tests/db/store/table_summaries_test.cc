// SPDX-License-Identifier: Apache-2.0
#include "db/store/table_summaries.h"

#include <gmock/gmock.h>

#include "schema/types.h"

namespace ckptdb::internal {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Key;

Item TableOf(const std::string& name, const Version& data, uint64_t bytes) {
  Item item;
  item.kind = Item::Kind::kRows;
  item.name = name;
  item.data_version = data;
  item.stored_bytes = bytes;
  return item;
}

TEST(TableSummariesTest, AddsUpTheRanksOfEachTableAlone) {
  const Version own = {7, 2};
  const Version older = {6, 1};
  Item tensor = TableOf("users", own, 1000);
  tensor.kind = Item::Kind::kTensor;
  std::vector<StepRecord::Rank> ranks(3);
  ranks[0].items = {TableOf("items", own, 5), TableOf("users", own, 10)};
  ranks[1].items = {TableOf("users", older, 20), tensor};
  ranks[2].items = {tensor};
  const TableSummaries summaries = SummarizeTables(ranks);
  ASSERT_THAT(summaries, ElementsAre(Key("items"), Key("users")));
  EXPECT_EQ(summaries.at("items").stored_bytes, 5);
  EXPECT_THAT(summaries.at("items").data, ElementsAre(own));
  EXPECT_EQ(summaries.at("users").stored_bytes, 30);
  EXPECT_THAT(summaries.at("users").data, ElementsAre(older, own));
  EXPECT_EQ(summaries.at("users").item, ranks[0].items[1]);
}

TEST(TableSummariesTest, NoRankHasNoTable) {
  EXPECT_THAT(SummarizeTables({}), IsEmpty());
}

}  // namespace
}  // namespace ckptdb::internal
