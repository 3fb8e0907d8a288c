// SPDX-License-Identifier: Apache-2.0
// plan: what a restore of a step would read.
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "db/state.h"
#include "tests/tools/tool_fixture.h"

namespace ckptdb::testing {
namespace {

using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;
using Json = nlohmann::json;

class ToolPlan : public ToolFixture {
 protected:
  uint64_t StoredBytes(const std::string& step, const std::string& kind,
                       const std::vector<std::string>& filter = {}) const {
    std::vector<std::string> arguments = {"items", step};
    arguments.insert(arguments.end(), filter.begin(), filter.end());
    uint64_t bytes = 0;
    const Json items = RunJson(arguments);
    for (const Json& item : items["items"]) {
      if (item["kind"] != kind) continue;
      bytes += item["stored_bytes"].get<uint64_t>();
    }
    return bytes;
  }
};

class ToolDeltaPlan : public DeltaFixture {
 protected:
  uint64_t TableBytes(const std::string& step, const std::string& table) const {
    const Json items = RunJson({"items", step, table});
    return items["items"][0]["stored_bytes"].get<uint64_t>();
  }
};

TEST_F(ToolDeltaPlan, ReadsAllRunsOfTheChain) {
  const Json plan = RunJson({"plan", "latest"});
  EXPECT_EQ(plan["store"], path());
  EXPECT_EQ(plan["step"], 400);
  EXPECT_EQ(plan["world_size"], 1);
  EXPECT_EQ(plan["saved_world_size"], 1);
  EXPECT_EQ(plan["from"], Json());
  EXPECT_EQ(plan["incremental"], false);
  EXPECT_EQ(plan["not_incremental_reason"], Json());
  ASSERT_EQ(plan["ranks"].size(), 1u);
  const Json& rank = plan["ranks"][0];
  EXPECT_EQ(rank["rank"], 0);
  EXPECT_EQ(rank["slices"], (Json{0, 65536}));
  ASSERT_EQ(rank["tables"].size(), 2u);
  const Json& item = rank["tables"][0];
  EXPECT_EQ(item["name"], "item");
  EXPECT_EQ(item["base_runs"], 1);
  EXPECT_EQ(item["delta_runs"], 1);
  EXPECT_EQ(item["rows"], 4 + 1);
  EXPECT_EQ(item["max_rows"], 4 + 1);
  EXPECT_EQ(item["stored_bytes"],
            TableBytes("300", "item") + TableBytes("400", "item"));
  EXPECT_EQ(item["full_read_reason"], Json());
  const Json& user = rank["tables"][1];
  EXPECT_EQ(user["base_runs"], 1);
  EXPECT_EQ(user["delta_runs"], 3);
  EXPECT_EQ(user["rows"], 10 + 2 + 1 + 1);
  EXPECT_EQ(user["erased_rows"], 1 + 1);
  EXPECT_EQ(rank["all_tables"]["delta_runs"], 4);
  // All runs in the chain that contain the step's tables.
  const Json chain = RunJson({"chain", "latest"});
  EXPECT_EQ(rank["all_tables"]["stored_bytes"],
            chain["base_bytes"].get<uint64_t>() +
                chain["delta_bytes"].get<uint64_t>());
  EXPECT_EQ(rank["tensors"]["items"], 1);
  EXPECT_EQ(rank["blobs"]["items"], 1);
}

TEST_F(ToolDeltaPlan, FromAnotherStepReadsTheDeltasBetween) {
  const Json plan = RunJson({"plan", "400", "--from", "200"});
  EXPECT_EQ(plan["from"]["step"], 200);
  EXPECT_EQ(plan["incremental"], true);
  EXPECT_EQ(plan["forward"], true);
  const Json& rank = plan["ranks"][0];
  const Json& item = rank["tables"][0];
  EXPECT_EQ(item["base_runs"], 1);
  EXPECT_THAT(item["full_read_reason"].get<std::string>(),
              AllOf(HasSubstr("step 300"), HasSubstr("saved in full"),
                    HasSubstr(kItemBaseReason)));
  const Json& user = rank["tables"][1];
  EXPECT_EQ(user["base_runs"], 0);
  EXPECT_EQ(user["delta_runs"], 2);
  EXPECT_EQ(user["rows"], 1 + 1);
  EXPECT_EQ(user["erased_rows"], 1);
  EXPECT_EQ(user["stored_bytes"],
            TableBytes("300", "user") + TableBytes("400", "user"));
  EXPECT_EQ(user["full_read_reason"], Json());
  // All steps have the same tensors.
  EXPECT_EQ(rank["tensors"]["items"], 0);
  EXPECT_EQ(rank["blobs"]["stored_bytes"], 0);
}

TEST_F(ToolDeltaPlan, BackwardsCountsTheRunsOfBothSteps) {
  const Json plan = RunJson({"plan", "100", "--from", "200"});
  EXPECT_EQ(plan["incremental"], true);
  EXPECT_EQ(plan["forward"], false);
  const Json& user = plan["ranks"][0]["tables"][2];
  EXPECT_EQ(user["name"], "user");
  EXPECT_EQ(user["rows"], 2);
  EXPECT_EQ(user["base_runs"], 1);
  EXPECT_EQ(user["delta_runs"], 1);
  EXPECT_EQ(user["stored_bytes"],
            TableBytes("100", "user") + TableBytes("200", "user"));
  EXPECT_THAT(Run({"plan", "100", "--from", "200"}).out,
              HasSubstr(", incremental and backwards: changed rows"));
}

TEST_F(ToolDeltaPlan, FromTheStepItselfReadsNoRows) {
  const Json plan = RunJson({"plan", "400", "--from", "latest"});
  EXPECT_EQ(plan["incremental"], true);
  EXPECT_EQ(plan["ranks"][0]["all_tables"]["stored_bytes"], 0);
}

TEST_F(ToolDeltaPlan, AsText) {
  const ToolResult plan = Run({"plan", "400", "--from", "200", "--tables"});
  EXPECT_EQ(plan.code, 0);
  EXPECT_EQ(plan.err, "");
  EXPECT_THAT(
      plan.out,
      AllOf(ContainsRegex("^step +step 400 attempt [0-9]+, saved by 1 rank\n"),
            ContainsRegex("\nonto +1 rank, with even shares of the slices\n"),
            ContainsRegex("\nfrom +step 200 attempt [0-9]+, incremental\n"),
            ContainsRegex("\nRANK  SLICES +BASES +DELTAS +ROWS +AT MOST"),
            ContainsRegex("\n +0  \\[0, 65536\\) +1 +3 +7 +7 .* 0 B +0 B\n"),
            ContainsRegex("\n +0  user +undeclared +\\[0, 65536\\) +0 +2 +2 +2 "
                          "+1 +[0-9.]+ K?i?B\n"),
            ContainsRegex(
                "\nREAD IN FULL +REASON\nitem +table \"item\" cannot")));
  EXPECT_THAT(Run({"plan", "400"}).out,
              AllOf(Not(HasSubstr("\nfrom")), Not(HasSubstr("READ IN FULL")),
                    Not(HasSubstr("user"))));
}

TEST_F(ToolPlan, OntoAsManyRanksAsSaved) {
  const Json plan = RunJson({"plan", "300"});
  EXPECT_EQ(plan["world_size"], 2);
  EXPECT_EQ(plan["slice_assignment"], "as_saved");
  ASSERT_EQ(plan["ranks"].size(), 2u);
  uint64_t tensors = 0;
  for (const Json& rank : plan["ranks"]) {
    const std::string number = std::to_string(rank["rank"].get<int>());
    EXPECT_EQ(rank["tables"][0]["rows"], 750);
    EXPECT_EQ(rank["tables"][0]["max_rows"], 750);
    EXPECT_EQ(rank["tables"][0]["base_runs"], 1);
    EXPECT_EQ(rank["all_tables"]["stored_bytes"],
              StoredBytes("300", "table", {"--rank", number}));
    EXPECT_EQ(rank["tensors"]["items"], 1);
    tensors += rank["tensors"]["stored_bytes"].get<uint64_t>();
  }
  EXPECT_EQ(plan["ranks"][1]["slices"], (Json{32768, 65536}));
  EXPECT_EQ(tensors, StoredBytes("300", "tensor"));
}

TEST_F(ToolPlan, OntoMoreRanks) {
  const Json plan = RunJson({"plan", "300", "--world", "4"});
  EXPECT_EQ(plan["slice_assignment"], "even");
  ASSERT_EQ(plan["ranks"].size(), 4u);
  for (const Json& rank : plan["ranks"]) {
    EXPECT_EQ(rank["tables"][0]["base_runs"], 1);
    EXPECT_EQ(rank["tables"][0]["rows"], 375);
    EXPECT_EQ(rank["tables"][0]["max_rows"], 750);
    EXPECT_EQ(rank["tensors"]["stored_bytes"], StoredBytes("300", "tensor"));
  }
  EXPECT_EQ(plan["ranks"][3]["slices"], (Json{49152, 65536}));
}

TEST_F(ToolPlan, OntoFewerRanks) {
  const Json plan = RunJson({"plan", "300", "-w", "1"});
  ASSERT_EQ(plan["ranks"].size(), 1u);
  const Json& rank = plan["ranks"][0];
  EXPECT_EQ(rank["tables"][0]["base_runs"], 2);
  EXPECT_EQ(rank["tables"][0]["rows"], 1500);
  EXPECT_EQ(rank["all_tables"]["stored_bytes"], StoredBytes("300", "table"));
  const Json blobs = RunJson({"plan", "100", "-w", "3"})["ranks"][2]["blobs"];
  EXPECT_EQ(blobs["items"], 1);
  EXPECT_EQ(blobs["stored_bytes"], StoredBytes("100", "blob"));
}

TEST_F(ToolPlan, OntoRanksWithoutSlices) {
  Own();
  ASSERT_OK_AND_ASSIGN(const Store::Attempt save,
                       store_->Begin({.step = 400, .world_size = 2}));
  std::vector<StagedRank> staged;
  for (uint32_t rank = 0; rank < 2; ++rank) {
    const std::vector<int64_t> ids = {rank, 10 + rank};
    const std::vector<char> bytes(2);
    const RowSource::Arrays rows(ids, {{bytes.data(), 1}});
    RankState state;
    state.AddTable("t", {{"v", DType::kU8, 1}}, &rows, SliceHash::kModulo,
                   TableSharding::ByModulo());
    state.AddTable("r", {{"v", DType::kU8, 1}}, &rows, SliceHash::kModulo,
                   TableSharding::Replicated());
    ASSERT_OK_AND_ASSIGN(StagedRank one,
                         Stage(store_->path(), save.tickets[rank], state));
    staged.push_back(std::move(one));
  }
  ASSERT_OK(store_->Publish(save.version, staged).status());
  const Json plan = RunJson({"plan", "400"});
  EXPECT_EQ(plan["slice_assignment"], "none");
  EXPECT_EQ(plan["ranks"][1]["slices"], (Json{0, 65536}));
  EXPECT_EQ(plan["ranks"][1]["all_tables"]["rows"], 2 + 4);
  const Json tables = plan["ranks"][1]["tables"];
  EXPECT_EQ(tables[0]["name"], "r");
  EXPECT_EQ(tables[0]["sharding"], "replicated");
  EXPECT_EQ(tables[0]["rows"], 2);
  EXPECT_EQ(tables[1]["sharding"], "modulo");
  EXPECT_EQ(tables[1]["sharding_name"], nullptr);
  EXPECT_EQ(tables[1]["slices"], (Json{0, 65536}));
  EXPECT_THAT(Run({"plan", "400", "-t"}).out, HasSubstr("replicated"));
  EXPECT_THAT(Run({"plan", "400"}).out,
              HasSubstr("without slices: each rank reads"));
}

TEST_F(ToolPlan, NamesTheStepThatBreaksThePath) {
  const Json plan = RunJson({"plan", "200", "--from", "100"});
  EXPECT_EQ(plan["incremental"], false);
  EXPECT_EQ(plan["forward"], Json());
  EXPECT_THAT(plan["not_incremental_reason"].get<std::string>(),
              AllOf(HasSubstr("step 200"), HasSubstr("was saved in full")));
  EXPECT_EQ(plan["ranks"][0]["tables"][0]["rows"], 1200);
  EXPECT_THAT(Run({"plan", "200", "--from", "100"}).out,
              ContainsRegex("\nfrom +step 100 attempt [0-9]+, not "
                            "incremental: .*was saved in full\n"));
}

TEST_F(ToolPlan, ReadsNoData) {
  DamageLargestFile();
  ASSERT_EQ(Run({"verify", "200"}).code, 3);
  EXPECT_EQ(Run({"plan", "200"}).code, 0);
}

TEST_F(ToolPlan, ReadsALiveStore) {
  Own();
  EXPECT_EQ(RunJson({"plan", "latest"})["step"], 300);
  ASSERT_OK(store_->Delete(300));
  EXPECT_EQ(RunJson({"plan", "latest"})["step"], 200);
  EXPECT_EQ(Run({"plan", "300"}).code, 2);
}

TEST_F(ToolPlan, RejectsMissingStepsAndInvalidWorlds) {
  for (const std::vector<std::string>& arguments :
       std::vector<std::vector<std::string>>{
           {"plan", "150"}, {"plan", "100", "--from", "150"}}) {
    const ToolResult plan = Run(arguments);
    EXPECT_EQ(plan.code, 2);
    EXPECT_EQ(plan.out, "");
    EXPECT_THAT(plan.err,
                AllOf(StartsWith("ckptdb: plan: "), HasSubstr("step 150")));
  }
  for (const char* ranks : {"0", "65537", "-1", "x"}) {
    const ToolResult plan = Run({"plan", "100", "--world", ranks});
    EXPECT_EQ(plan.code, 1) << ranks;
    EXPECT_THAT(plan.err, AllOf(StartsWith("ckptdb: plan: "),
                                HasSubstr("--world"), HasSubstr(ranks)));
  }
  EXPECT_EQ(Run({"plan", "100", "--from", "x7"}).code, 1);
}

}  // namespace
}  // namespace ckptdb::testing
