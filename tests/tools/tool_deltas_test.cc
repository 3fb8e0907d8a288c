// SPDX-License-Identifier: Apache-2.0
// ls, show, items, du, verify, rm: their output for delta steps.
#include <string>

#include "tests/tools/tool_fixture.h"

namespace ckptdb::testing {
namespace {

using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;
using Json = nlohmann::json;

class ToolDeltas : public DeltaFixture {};

TEST_F(ToolDeltas, LsShowsKindAndChain) {
  const Json steps = RunJson({"ls"})["steps"];
  ASSERT_EQ(steps.size(), 4u);
  EXPECT_EQ(steps[0]["kind"], "full");
  EXPECT_EQ(steps[0]["chain_length"], 1);
  EXPECT_EQ(steps[0]["deltas"], 0);
  EXPECT_EQ(steps[3]["kind"], "delta");
  EXPECT_EQ(steps[3]["chain_length"], 4);
  EXPECT_EQ(steps[3]["deltas"], 3);
  EXPECT_GT(steps[3]["base_bytes"], 0);
  EXPECT_GT(steps[3]["delta_bytes"], steps[1]["delta_bytes"]);
  EXPECT_EQ(steps[3]["rows"], 2);
  EXPECT_EQ(steps[0]["erased_rows"], 0);
  for (size_t i = 0; i < steps.size(); ++i) {
    const Json show = RunJson({"show", std::to_string(Steps()[i])});
    EXPECT_EQ(steps[i]["erased_rows"], show["totals"]["erased_rows"]);
    EXPECT_EQ(steps[i]["metrics"], show["metrics"]);
  }
  EXPECT_GT(steps[1]["erased_rows"].get<int>() +
                steps[2]["erased_rows"].get<int>() +
                steps[3]["erased_rows"].get<int>(),
            0);
  EXPECT_THAT(Run({"ls"}).out,
              AllOf(ContainsRegex("\n 100  full  +1  - +1 +15 +0 "),
                    ContainsRegex("\n 400  delta +4  - +1 +\\+2 +[0-9]+ ")));
}

TEST_F(ToolDeltas, ShowPrintsParentAndChain) {
  const Json show = RunJson({"show", "300"});
  EXPECT_EQ(show["kind"], "delta");
  EXPECT_EQ(show["parent"]["step"], 200);
  EXPECT_EQ(show["chain"].size(), 3u);
  EXPECT_EQ(show["deltas"], 2);
  EXPECT_GT(show["delta_ratio"], 0);
  EXPECT_EQ(show["folded_from"], Json());
  EXPECT_EQ(show["kinds"]["table"]["rows"], 5);
  EXPECT_EQ(show["kinds"]["table"]["erased_rows"], 1);
  const std::string text = Run({"show", "300"}).out;
  EXPECT_THAT(text, ContainsRegex("\nkind +delta\n"));
  EXPECT_THAT(text, ContainsRegex("\nparent +step 200 attempt [0-9]+\n"));
  EXPECT_THAT(text, ContainsRegex("\nchain +step 100 attempt [0-9]+, step 200 "
                                  "attempt [0-9]+, step 300 attempt"));
  EXPECT_THAT(text, ContainsRegex("\ndeltas +2 deltas of [0-9.]+ K?i?B over a "
                                  "base of [0-9.]+ K?i?B, "));
  EXPECT_THAT(Run({"show", "100"}).out, ContainsRegex("\ndeltas +-\n"));
}

TEST_F(ToolDeltas, ItemsShowRunsAndReasons) {
  const Json items = RunJson({"items", "300", "[iu]*"})["items"];
  ASSERT_EQ(items.size(), 2u);
  EXPECT_EQ(items[0]["name"], "item");
  EXPECT_EQ(items[0]["run"], "base");
  EXPECT_EQ(items[0]["base_reason"], kItemBaseReason);
  EXPECT_EQ(items[0]["rows"], 4);
  EXPECT_EQ(items[1]["name"], "user");
  EXPECT_EQ(items[1]["run"], "delta");
  EXPECT_EQ(items[1]["base_reason"], Json());
  EXPECT_EQ(items[1]["rows"], 1);
  EXPECT_EQ(items[1]["erased_rows"], 1);
  EXPECT_THAT(Run({"items", "300"}).out,
              AllOf(HasSubstr("RUN    ROWS  ERASED"),
                    ContainsRegex(" item .* base +4 +- .* the tracker ran over "
                                  "its bound\n"),
                    ContainsRegex(" user .* delta +\\+1 +1 ")));
}

TEST_F(ToolDeltas, DuShowsVersionsKeptForOtherSteps) {
  ASSERT_EQ(Run({"rm", "200"}).code, 0);
  const Json du = RunJson({"du"});
  ASSERT_EQ(du["held_versions"].size(), 1u);
  const Json& kept = du["held_versions"][0];
  EXPECT_EQ(kept["step"], 200);
  EXPECT_EQ(kept["reason"], "referenced");
  EXPECT_EQ(kept["in_chain_of"], (Json{300, 400}));
  EXPECT_THAT(kept["referenced_by"], IsEmpty());
  EXPECT_THAT(kept["folded_into"], IsEmpty());
  EXPECT_EQ(du["referenced_bytes"], kept["stored_bytes"]);
  ASSERT_EQ(du["steps"].size(), 3u);
  // The runs of steps 100 and 200.
  EXPECT_GT(du["steps"][1]["borrowed_bytes"], 0);
  const std::string text = Run({"du"}).out;
  EXPECT_THAT(text,
              ContainsRegex("\n +200 .* referenced  runs of steps 300, 400\n"));
  EXPECT_THAT(text, ContainsRegex("\nkept for other steps +[0-9.]+ "));
}

TEST_F(ToolDeltas, VerifyReadsAChainOnce) {
  const Json all = RunJson({"verify"});
  EXPECT_EQ(all["ok"], true);
  ASSERT_EQ(all["steps"].size(), 4u);
  EXPECT_EQ(all["steps"][0]["previously_verified"], 0);
  EXPECT_EQ(all["steps"][3]["chain_length"], 4);
  EXPECT_EQ(all["steps"][3]["previously_verified"], 3);
  const Json one = RunJson({"verify", "400"})["steps"][0];
  EXPECT_EQ(one["chain_length"], 4);
  EXPECT_EQ(one["previously_verified"], 0);
  // Including its chain.
  EXPECT_GT(one["needed_bytes"],
            RunJson({"ls"})["steps"][3]["exclusive_bytes"]);
  EXPECT_THAT(Run({"verify"}).out,
              AllOf(ContainsRegex("^step 100: ok, [0-9.]+ K?i?B in [^,]+\n"),
                    ContainsRegex("\nstep 400: ok, .*, a chain of 4, 3 of them "
                                  "verified before\n$")));
}

// Not all tables of steps 100 and 200 are in these chains, so those steps do
// not
// count as read.
TEST_F(ToolDeltas, VerifyReadsVersionsKeptForOtherSteps) {
  ASSERT_EQ(Run({"rm", "100", "200"}).code, 0);
  EXPECT_THAT(Run({"verify"}).out,
              ContainsRegex("^step 300: ok, .*, a chain of 3\n"
                            "step 400: ok, .*, a chain of 4, 1 of them "
                            "verified before\n$"));
}

TEST_F(ToolDeltas, RmReportsRunsThatStay) {
  const ToolResult rm = Run({"rm", "200"});
  EXPECT_EQ(rm.code, 0);
  EXPECT_EQ(rm.err, "");
  EXPECT_THAT(rm.out,
              ContainsRegex("^removed step 200 attempt [0-9]+\n"
                            "  its runs are kept while steps need them: they "
                            "are in the chain of steps 300, 400\n"
                            "freed 0 B of data files\n$"));
  EXPECT_EQ(Run({"row", "user", "50", "--step", "300"}).code, 2);
  EXPECT_EQ(RunJson({"row", "user", "1"})["slots"][1]["values"], Json{2});
}

TEST_F(ToolDeltas, RmOfTheLastStepFreesTheChain) {
  ASSERT_EQ(Run({"rm", "300"}).code, 0);
  const ToolResult rm = Run({"rm", "400"});
  EXPECT_EQ(rm.code, 0);
  EXPECT_THAT(rm.out, AllOf(StartsWith("removed step 400 "),
                            ContainsRegex("\nswept step 300 attempt [0-9]+\n"
                                          "swept step 400 attempt [0-9]+\n"
                                          "freed 0 B of data files and [0-9.]+ "
                                          "K?i?B that was stored inline\n$")));
}

TEST_F(ToolDeltas, RmAsJson) {
  const Json rm = RunJson({"rm", "100"});
  ASSERT_EQ(rm["removed_versions"].size(), 1u);
  EXPECT_EQ(rm["removed_versions"][0]["in_chain_of"], (Json{200, 300, 400}));
  EXPECT_EQ(rm["removed_versions"][0]["referenced_by"], (Json{200, 300, 400}));
  EXPECT_EQ(rm["freed_inline_bytes"], 0);
  EXPECT_THAT(rm["swept_versions"], IsEmpty());
}

}  // namespace
}  // namespace ckptdb::testing
