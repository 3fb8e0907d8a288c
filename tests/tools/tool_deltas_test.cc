// SPDX-License-Identifier: Apache-2.0
// chain, ls, show, items, du, verify, rm: their output for delta steps.

#include "tests/tools/tool_fixture.h"

namespace ckptdb::testing {
namespace {

class ToolChain : public DeltaFixture {};

TEST_F(ToolChain, AsJson) {
  const Json chain = RunJson("chain 300");
  EXPECT_EQ(chain["store"], path());
  EXPECT_THAT(chain, Includes(R"({
      "step": 300, "kind": "delta", "deltas": 2, "max_deltas": 50,
      "max_delta_ratio": 1.0, "folded_from": null, "versions": [
        {"step": 100, "kind": "full", "is_step": true, "rows": 15,
         "erased_rows": 0},
        {"step": 200, "kind": "delta", "rows": 2, "erased_rows": 1},
        {"step": 300, "rows": 5, "erased_rows": 1}]})"));
  EXPECT_GT(chain["base_bytes"], 0);
  EXPECT_GT(chain["delta_bytes"], 0);
  EXPECT_DOUBLE_EQ(chain["delta_ratio"], chain["delta_bytes"].get<double>() /
                                             chain["base_bytes"].get<double>());
  EXPECT_FALSE(chain.contains("tables"));
  const Json& base = chain["versions"][0];
  EXPECT_GT(base["table_bytes"], 0);
  EXPECT_GT(base["exclusive_bytes"], base["table_bytes"]);
  EXPECT_EQ(chain["versions"][2]["attempt"], chain["attempt"]);
}

TEST_F(ToolChain, TableBytesAddUp) {
  const Json chain = RunJson("chain 200");
  EXPECT_EQ(chain["delta_bytes"], chain["versions"][1]["table_bytes"]);
  // The table "types" of step 100 is not in the chain.
  EXPECT_LT(chain["base_bytes"], chain["versions"][0]["table_bytes"]);
}

TEST_F(ToolChain, ShowsWhereTablesBegin) {
  EXPECT_THAT(RunJson("chain latest --tables")["tables"], Includes(R"([
      {"name": "item", "base": {"step": 300}, "deltas": 1,
       "base_reason": "the tracker ran over its bound"},
      {"name": "user", "base": {"step": 100}, "deltas": 3,
       "base_reason": ""}])"));
}

TEST_F(ToolChain, AsTable) {
  ExpectPrints(
      "chain 400 --tables",
      ContainsAll(
          "^STEP  ATTEMPT  KIND +ROWS  ERASED +TABLES +SAVED",
          "\n 100 .* full +15 +0 .* a step\n",
          "\n 200 .* delta +\\+2 +1 .* a step\n",
          "\n 400 .* delta +\\+2 +0 .* this step\n",
          "\ndeltas +3; the default limit is 50\n",
          "\ndelta bytes +[0-9.]+ K?i?B, [0-9.]+ of ",
          "\nitem +step 300 attempt [0-9]+ +1  the tracker ran over its "
          "bound\n",
          "\nuser +step 100 attempt [0-9]+ +3  -\n"));
}

TEST_F(ToolChain, FullStepHasOneVersion) {
  EXPECT_THAT(RunJson("chain 100"), Includes(R"({
      "kind": "full", "deltas": 0, "delta_ratio": 0.0, "base_due_reason": null,
      "versions": [{}]})"));
}

TEST_F(ToolChain, ShowsVersionsKeptForOtherSteps) {
  ASSERT_EQ(Run("rm 200").code, 0);
  const Json chain = RunJson("chain 400 --tables");
  // A table may begin earlier than in the versions that are known.
  EXPECT_THAT(chain, Includes(R"({
      "versions": [{}, {"step": 200, "is_step": false, "kind": "delta",
                        "rows": 2}, {"is_step": true}, {}],
      "tables": [{"base": {"step": 300}},
                 {"base": null, "base_reason": null, "deltas": null}]})"));
  EXPECT_GT(chain["versions"][1]["exclusive_bytes"], 0);
  ExpectPrints("chain 400 --tables",
               ContainsAll("\n 200 .* delta +\\+2 .* kept for others\n",
                           "\nuser +step 200 attempt [0-9]+ or before +2\\+  "
                           "unknown\n"));
}

TEST_F(ToolChain, TableWithoutAKnownBaseBeginsInTheFirstVersion) {
  ASSERT_EQ(Run("rm 100").code, 0);
  EXPECT_THAT(RunJson("chain 400 --tables")["tables"][1],
              Includes(R"({"name": "user", "base": {"step": 100},
                           "base_reason": null, "deltas": 3})"));
}

TEST_F(ToolChain, FailsIfTheStepIsMissing) {
  ExpectFails("chain 150", 2, HasSubstr("150"));
}

class ToolDeltas : public DeltaFixture {};

TEST_F(ToolDeltas, LsShowsKindAndChain) {
  const Json steps = RunJson("ls")["steps"];
  EXPECT_THAT(steps, Includes(R"([
      {"kind": "full", "chain_length": 1, "deltas": 0, "erased_rows": 0}, {},
      {}, {"kind": "delta", "chain_length": 4, "deltas": 3, "rows": 2}])"));
  EXPECT_GT(steps[3]["base_bytes"], 0);
  EXPECT_GT(steps[3]["delta_bytes"], steps[1]["delta_bytes"]);
  int erased = 0;
  for (const Json& step : steps) {
    const Json show = RunJson("show " + step["step"].dump());
    EXPECT_EQ(step["erased_rows"], show["totals"]["erased_rows"]);
    EXPECT_EQ(step["metrics"], show["metrics"]);
    erased += step["erased_rows"].get<int>();
  }
  EXPECT_GT(erased, 0);
  EXPECT_THAT(Run("ls").out,
              ContainsAll("\n 100  full  +1  - +1 +15 +0 ",
                          "\n 400  delta +4  - +1 +\\+2 +[0-9]+ "));
}

TEST_F(ToolDeltas, ShowPrintsParentAndChain) {
  const Json show = RunJson("show 300");
  EXPECT_THAT(show, Includes(R"({
      "kind": "delta", "parent": {"step": 200}, "chain": [{}, {}, {}],
      "deltas": 2, "folded_from": null,
      "kinds": {"table": {"rows": 5, "erased_rows": 1}}})"));
  EXPECT_GT(show["delta_ratio"], 0);
  EXPECT_THAT(
      Run("show 300").out,
      ContainsAll("\nkind +delta\n", "\nparent +step 200 attempt [0-9]+\n",
                  "\nchain +step 100 attempt [0-9]+, step 200 attempt "
                  "[0-9]+, step 300 attempt",
                  "\ndeltas +2 deltas of [0-9.]+ K?i?B over a base of "
                  "[0-9.]+ K?i?B, "));
  EXPECT_THAT(Run("show 100").out, ContainsRegex("\ndeltas +-\n"));
}

TEST_F(ToolDeltas, ItemsShowRunsAndReasons) {
  EXPECT_THAT(RunJson("items 300 [iu]*")["items"], Includes(R"([
      {"name": "item", "run": "base", "rows": 4,
       "base_reason": "the tracker ran over its bound"},
      {"name": "user", "run": "delta", "rows": 1, "erased_rows": 1,
       "base_reason": null}])"));
  EXPECT_THAT(Run("items 300").out,
              ContainsAll("RUN    ROWS  ERASED",
                          " item .* base +4 +- .* the tracker ran over its "
                          "bound\n",
                          " user .* delta +\\+1 +1 "));
}

TEST_F(ToolDeltas, DuShowsVersionsKeptForOtherSteps) {
  ASSERT_EQ(Run("rm 200").code, 0);
  const Json du = RunJson("du");
  EXPECT_THAT(du, Includes(R"({
      "steps": [{}, {}, {}], "held_versions": [
        {"step": 200, "reason": "referenced", "in_chain_of": [300, 400],
         "referenced_by": [], "folded_into": []}]})"));
  EXPECT_EQ(du["referenced_bytes"], du["held_versions"][0]["stored_bytes"]);
  // The runs of steps 100 and 200.
  EXPECT_GT(du["steps"][1]["borrowed_bytes"], 0);
  EXPECT_THAT(Run("du").out,
              ContainsAll("\n +200 .* referenced  runs of steps 300, 400\n",
                          "\nkept for other steps +[0-9.]+ "));
}

TEST_F(ToolDeltas, VerifyReadsAChainOnce) {
  EXPECT_THAT(RunJson("verify"), Includes(R"({
      "ok": true, "steps": [{"previously_verified": 0}, {}, {},
                            {"chain_length": 4, "previously_verified": 3}]})"));
  const Json one = RunJson("verify 400")["steps"][0];
  EXPECT_THAT(one,
              Includes(R"({"chain_length": 4, "previously_verified": 0})"));
  // Including its chain.
  EXPECT_GT(one["needed_bytes"], RunJson("ls")["steps"][3]["exclusive_bytes"]);
  EXPECT_THAT(
      Run("verify").out,
      ContainsAll("^step 100: ok, [0-9.]+ K?i?B in [^,]+\n",
                  "\nstep 400: ok, .*, a chain of 4, 3 of them verified "
                  "before\n$"));
}

// Not all tables of steps 100 and 200 are in these chains, so those steps do
// not count as read.
TEST_F(ToolDeltas, VerifyReadsVersionsKeptForOtherSteps) {
  ASSERT_EQ(Run("rm 100 200").code, 0);
  EXPECT_THAT(Run("verify").out,
              ContainsRegex("^step 300: ok, .*, a chain of 3\n"
                            "step 400: ok, .*, a chain of 4, 1 of them "
                            "verified before\n$"));
}

TEST_F(ToolDeltas, RmReportsRunsThatStay) {
  ExpectPrints("rm 200",
               ContainsRegex("^removed step 200 attempt [0-9]+\n"
                             "  its runs are kept while steps need them: they "
                             "are in the chain of steps 300, 400\n"
                             "freed 0 B of data files\n$"));
  EXPECT_EQ(Run("row user 50 --step 300").code, 2);
  EXPECT_EQ(RunJson("row user 1")["slots"][1]["values"], Json{2});
}

TEST_F(ToolDeltas, RmOfTheLastStepFreesTheChain) {
  ASSERT_EQ(Run("rm 300").code, 0);
  ExpectRun("rm 400", 0,
            ContainsAll("^removed step 400 ",
                        "\nswept step 300 attempt [0-9]+\n"
                        "swept step 400 attempt [0-9]+\n"
                        "freed 0 B of data files and [0-9.]+ K?i?B that was "
                        "stored inline\n$"),
            ::testing::_);
}

TEST_F(ToolDeltas, RmAsJson) {
  EXPECT_THAT(RunJson("rm 100"), Includes(R"({
      "removed_versions": [{"in_chain_of": [200, 300, 400],
                            "referenced_by": [200, 300, 400]}],
      "freed_inline_bytes": 0, "swept_versions": []})"));
}

}  // namespace
}  // namespace ckptdb::testing
