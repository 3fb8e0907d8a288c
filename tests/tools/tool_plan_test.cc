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

// Returns the stored bytes of a step's items of a kind.
uint64_t StoredBytes(const Json& items, const std::string& kind) {
  uint64_t bytes = 0;
  for (const Json& item : items["items"]) {
    if (item["kind"] == kind) bytes += item["stored_bytes"].get<uint64_t>();
  }
  return bytes;
}

class ToolPlan : public ToolFixture {};

class ToolDeltaPlan : public DeltaFixture {
 protected:
  uint64_t TableBytes(const std::string& step, const std::string& table) const {
    return StoredBytes(RunJson("items " + step + " " + table), "table");
  }
};

TEST_F(ToolDeltaPlan, ReadsAllRunsOfTheChain) {
  const Json plan = RunJson("plan latest");
  EXPECT_EQ(plan["store"], path());
  EXPECT_THAT(plan, Includes(R"({
      "step": 400, "world_size": 1, "saved_world_size": 1, "from": null,
      "incremental": false, "not_incremental_reason": null, "ranks": [
        {"rank": 0, "slices": [0, 65536], "tables": [
          {"name": "item", "base_runs": 1, "delta_runs": 1, "rows": 5,
           "max_rows": 5, "full_read_reason": null},
          {"base_runs": 1, "delta_runs": 3, "rows": 14, "erased_rows": 2}],
         "all_tables": {"delta_runs": 4}, "tensors": {"items": 1},
         "blobs": {"items": 1}}]})"));
  const Json& rank = plan["ranks"][0];
  EXPECT_EQ(rank["tables"][0]["stored_bytes"],
            TableBytes("300", "item") + TableBytes("400", "item"));
  // All runs in the chain that contain the step's tables.
  const Json chain = RunJson("chain latest");
  EXPECT_EQ(rank["all_tables"]["stored_bytes"],
            chain["base_bytes"].get<uint64_t>() +
                chain["delta_bytes"].get<uint64_t>());
}

TEST_F(ToolDeltaPlan, FromAnotherStepReadsTheDeltasBetween) {
  const Json plan = RunJson("plan 400 --from 200");
  // All steps have the same tensors.
  EXPECT_THAT(plan, Includes(R"({
      "from": {"step": 200}, "incremental": true, "forward": true, "ranks": [
        {"tables": [{"base_runs": 1},
                    {"base_runs": 0, "delta_runs": 2, "rows": 2,
                     "erased_rows": 1, "full_read_reason": null}],
         "tensors": {"items": 0}, "blobs": {"stored_bytes": 0}}]})"));
  const Json& tables = plan["ranks"][0]["tables"];
  EXPECT_THAT(tables[0]["full_read_reason"].get<std::string>(),
              AllOf(HasSubstr("step 300"), HasSubstr("saved in full"),
                    HasSubstr(kItemBaseReason)));
  EXPECT_EQ(tables[1]["stored_bytes"],
            TableBytes("300", "user") + TableBytes("400", "user"));
}

TEST_F(ToolDeltaPlan, BackwardsCountsTheRunsOfBothSteps) {
  const Json plan = RunJson("plan 100 --from 200");
  EXPECT_THAT(plan, Includes(R"({
      "incremental": true, "forward": false, "ranks": [
        {"tables": [{}, {}, {"name": "user", "rows": 2, "base_runs": 1,
                             "delta_runs": 1}]}]})"));
  EXPECT_EQ(plan["ranks"][0]["tables"][2]["stored_bytes"],
            TableBytes("100", "user") + TableBytes("200", "user"));
  EXPECT_THAT(Run("plan 100 --from 200").out,
              HasSubstr(", incremental and backwards: changed rows"));
}

TEST_F(ToolDeltaPlan, FromTheStepItselfReadsNoRows) {
  EXPECT_THAT(RunJson("plan 400 --from latest"), Includes(R"({
      "incremental": true, "ranks": [{"all_tables": {"stored_bytes": 0}}]})"));
}

TEST_F(ToolDeltaPlan, AsText) {
  ExpectPrints(
      "plan 400 --from 200 --tables",
      ContainsAll("^step +step 400 attempt [0-9]+, saved by 1 rank\n",
                  "\nonto +1 rank, with even shares of the slices\n",
                  "\nfrom +step 200 attempt [0-9]+, incremental\n",
                  "\nRANK  SLICES +BASES +DELTAS +ROWS +AT MOST",
                  "\n +0  \\[0, 65536\\) +1 +3 +7 +7 .* 0 B +0 B\n",
                  "\n +0  user +undeclared +\\[0, 65536\\) +0 +2 +2 +2 +1 "
                  "+[0-9.]+ K?i?B\n",
                  "\nREAD IN FULL +REASON\nitem +table \"item\" cannot"));
  EXPECT_THAT(Run("plan 400").out,
              AllOf(Not(HasSubstr("\nfrom")), Not(HasSubstr("READ IN FULL")),
                    Not(HasSubstr("user"))));
}

TEST_F(ToolPlan, OntoAsManyRanksAsSaved) {
  const Json plan = RunJson("plan 300");
  EXPECT_THAT(plan, Includes(R"({
      "world_size": 2, "slice_assignment": "as_saved", "ranks": [
        {}, {"slices": [32768, 65536]}]})"));
  uint64_t tensors = 0;
  for (const Json& rank : plan["ranks"]) {
    EXPECT_THAT(rank, Includes(R"({
        "tables": [{"rows": 750, "max_rows": 750, "base_runs": 1}],
        "tensors": {"items": 1}})"));
    const Json items = RunJson("items 300 --rank " + rank["rank"].dump());
    EXPECT_EQ(rank["all_tables"]["stored_bytes"], StoredBytes(items, "table"));
    tensors += rank["tensors"]["stored_bytes"].get<uint64_t>();
  }
  EXPECT_EQ(tensors, StoredBytes(RunJson("items 300"), "tensor"));
}

TEST_F(ToolPlan, OntoMoreRanks) {
  const Json plan = RunJson("plan 300 --world 4");
  EXPECT_THAT(plan, Includes(R"({
      "slice_assignment": "even", "ranks": [
        {}, {}, {}, {"slices": [49152, 65536]}]})"));
  const Json items = RunJson("items 300");
  for (const Json& rank : plan["ranks"]) {
    EXPECT_THAT(rank["tables"], Includes(R"([
        {"base_runs": 1, "rows": 375, "max_rows": 750}])"));
    EXPECT_EQ(rank["tensors"]["stored_bytes"], StoredBytes(items, "tensor"));
  }
}

TEST_F(ToolPlan, OntoFewerRanks) {
  const Json plan = RunJson("plan 300 -w 1");
  EXPECT_THAT(plan["ranks"], Includes(R"([
      {"tables": [{"base_runs": 2, "rows": 1500}]}])"));
  EXPECT_EQ(plan["ranks"][0]["all_tables"]["stored_bytes"],
            StoredBytes(RunJson("items 300"), "table"));
  const Json blobs = RunJson("plan 100 -w 3")["ranks"][2]["blobs"];
  EXPECT_EQ(blobs["items"], 1);
  EXPECT_EQ(blobs["stored_bytes"], StoredBytes(RunJson("items 100"), "blob"));
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
  EXPECT_THAT(RunJson("plan 400"), Includes(R"({
      "slice_assignment": "none", "ranks": [{}, {
        "slices": [0, 65536], "all_tables": {"rows": 6}, "tables": [
          {"name": "r", "sharding": "replicated", "rows": 2},
          {"sharding": "modulo", "sharding_name": null,
           "slices": [0, 65536]}]}]})"));
  EXPECT_THAT(Run("plan 400 -t").out, HasSubstr("replicated"));
  EXPECT_THAT(Run("plan 400").out,
              HasSubstr("without slices: each rank reads"));
}

TEST_F(ToolPlan, NamesTheStepThatBreaksThePath) {
  const Json plan = RunJson("plan 200 --from 100");
  EXPECT_THAT(plan, Includes(R"({"incremental": false, "forward": null})"));
  EXPECT_THAT(plan["not_incremental_reason"].get<std::string>(),
              AllOf(HasSubstr("step 200"), HasSubstr("was saved in full")));
  EXPECT_EQ(plan["ranks"][0]["tables"][0]["rows"], 1200);
  EXPECT_THAT(Run("plan 200 --from 100").out,
              ContainsRegex("\nfrom +step 100 attempt [0-9]+, not "
                            "incremental: .*was saved in full\n"));
}

TEST_F(ToolPlan, ReadsNoData) {
  DamageLargestFile();
  ASSERT_EQ(Run("verify 200").code, 3);
  EXPECT_EQ(Run("plan 200").code, 0);
}

TEST_F(ToolPlan, ReadsALiveStore) {
  Own();
  EXPECT_EQ(RunJson("plan latest")["step"], 300);
  ASSERT_OK(store_->Delete(300));
  EXPECT_EQ(RunJson("plan latest")["step"], 200);
  EXPECT_EQ(Run("plan 300").code, 2);
}

TEST_F(ToolPlan, RejectsMissingStepsAndInvalidWorlds) {
  ExpectFails("plan 150", 2, HasSubstr("step 150"));
  ExpectFails("plan 100 --from 150", 2, HasSubstr("step 150"));
  for (const char* ranks : {"0", "65537", "-1", "x"}) {
    ExpectFails(std::string("plan 100 --world ") + ranks, 1,
                AllOf(HasSubstr("--world"), HasSubstr(ranks)));
  }
  EXPECT_EQ(Run("plan 100 --from x7").code, 1);
}

}  // namespace
}  // namespace ckptdb::testing
