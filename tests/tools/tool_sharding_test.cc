// SPDX-License-Identifier: Apache-2.0
// show, items and verify: how tables are divided among ranks.
#include "db/state.h"
#include "tests/tools/tool_fixture.h"

namespace ckptdb::testing {
namespace {

using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using Json = nlohmann::json;

class ToolSharding : public ToolFixture {
 protected:
  // Rank r of step 400 saves ids[r].
  void Save(const std::vector<std::vector<int64_t>>& ids,
            const TableSharding& sharding) {
    Own();
    ASSERT_OK_AND_ASSIGN(
        const Store::Attempt save,
        store_->Begin(
            {.step = 400, .world_size = static_cast<uint32_t>(ids.size())}));
    std::vector<StagedRank> staged;
    for (size_t rank = 0; rank < ids.size(); ++rank) {
      const std::vector<char> bytes(ids[rank].size());
      const RowSource::Arrays rows(ids[rank], {{bytes.data(), 1}});
      RankState state;
      state.AddTable("t", {{"v", DType::kU8, 1}}, &rows, SliceHash::kMix,
                     sharding);
      ASSERT_OK_AND_ASSIGN(staged.emplace_back(),
                           Stage(store_->path(), save.tickets[rank], state));
    }
    ASSERT_OK(store_->Publish(save.version, staged).status());
  }
};

TEST_F(ToolSharding, ShowAndItemsPrintTheSharding) {
  Save({{1, 3}, {2}},
       TableSharding::ByFunction("hash_v2", [](int64_t id, uint32_t) {
         return static_cast<uint32_t>(id % 2 == 0);
       }));
  const Json show = RunJson({"show", "400"});
  ASSERT_EQ(show["tables"].size(), 1u);
  EXPECT_EQ(show["tables"][0]["name"], "t");
  EXPECT_EQ(show["tables"][0]["sharding"], "custom");
  EXPECT_EQ(show["tables"][0]["sharding_name"], "hash_v2");
  EXPECT_THAT(Run({"show", "400"}).out,
              ContainsRegex("\ntables\n  TABLE +SHARDING +SLICE HASH\n"
                            "  t +custom \"hash_v2\" +mix\n"));
  const Json items = RunJson({"items", "400"});
  for (const Json& item : items["items"]) {
    EXPECT_EQ(item["sharding"], "custom");
    EXPECT_EQ(item["sharding_name"], "hash_v2");
  }
  EXPECT_THAT(Run({"items", "400"}).out, HasSubstr("custom \"hash_v2\""));
  EXPECT_EQ(RunJson({"show", "300"})["tables"][0]["sharding"], "slices");
  EXPECT_EQ(RunJson({"show", "100"})["tables"][0]["sharding"], "undeclared");
}

TEST_F(ToolSharding, VerifyNamesAnIdOnTwoRanks) {
  Save({{1, 3}, {2, 3}}, TableSharding::Unchecked());
  const ToolResult verify = Run({"verify", "400"});
  EXPECT_EQ(verify.code, 3);
  EXPECT_THAT(verify.err, HasSubstr("table \"t\": id 3 is on ranks 0 and 1"));
  const Json json = RunJson({"verify", "300"});
  EXPECT_EQ(json["steps"][0]["result"], "ok");
}

}  // namespace
}  // namespace ckptdb::testing
