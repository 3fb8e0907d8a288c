// SPDX-License-Identifier: Apache-2.0
// chain: the versions from which a step is restored.
#include <string>

#include "tests/tools/tool_fixture.h"

namespace ckptdb::testing {
namespace {

using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::StartsWith;
using Json = nlohmann::json;

class ToolChain : public DeltaFixture {};

TEST_F(ToolChain, AsJson) {
  const Json chain = RunJson({"chain", "300"});
  EXPECT_EQ(chain["store"], path());
  EXPECT_EQ(chain["step"], 300);
  EXPECT_EQ(chain["kind"], "delta");
  EXPECT_EQ(chain["deltas"], 2);
  EXPECT_EQ(chain["max_deltas"], 50);
  EXPECT_EQ(chain["max_delta_ratio"], 1.0);
  EXPECT_GT(chain["base_bytes"], 0);
  EXPECT_GT(chain["delta_bytes"], 0);
  EXPECT_DOUBLE_EQ(chain["delta_ratio"], chain["delta_bytes"].get<double>() /
                                             chain["base_bytes"].get<double>());
  EXPECT_EQ(chain["folded_from"], Json());
  EXPECT_FALSE(chain.contains("tables"));
  ASSERT_EQ(chain["versions"].size(), 3u);
  const Json& base = chain["versions"][0];
  EXPECT_EQ(base["step"], 100);
  EXPECT_EQ(base["kind"], "full");
  EXPECT_EQ(base["is_step"], true);
  EXPECT_EQ(base["rows"], 10 + 4 + 1);
  EXPECT_EQ(base["erased_rows"], 0);
  EXPECT_GT(base["table_bytes"], 0);
  EXPECT_GT(base["exclusive_bytes"], base["table_bytes"]);
  const Json& delta = chain["versions"][1];
  EXPECT_EQ(delta["step"], 200);
  EXPECT_EQ(delta["kind"], "delta");
  EXPECT_EQ(delta["rows"], 2);
  EXPECT_EQ(delta["erased_rows"], 1);
  const Json& own = chain["versions"][2];
  EXPECT_EQ(own["step"], 300);
  EXPECT_EQ(own["attempt"], chain["attempt"]);
  EXPECT_EQ(own["rows"], 1 + 4);
  EXPECT_EQ(own["erased_rows"], 1);
}

TEST_F(ToolChain, TableBytesAddUp) {
  const Json chain = RunJson({"chain", "200"});
  EXPECT_EQ(chain["delta_bytes"], chain["versions"][1]["table_bytes"]);
  // The table "types" of step 100 is not in the chain.
  EXPECT_LT(chain["base_bytes"], chain["versions"][0]["table_bytes"]);
}

TEST_F(ToolChain, ShowsWhereTablesBegin) {
  const Json tables = RunJson({"chain", "latest", "--tables"})["tables"];
  ASSERT_EQ(tables.size(), 2u);
  EXPECT_EQ(tables[0]["name"], "item");
  EXPECT_EQ(tables[0]["base"]["step"], 300);
  EXPECT_EQ(tables[0]["base_reason"], kItemBaseReason);
  EXPECT_EQ(tables[0]["deltas"], 1);
  EXPECT_EQ(tables[1]["name"], "user");
  EXPECT_EQ(tables[1]["base"]["step"], 100);
  EXPECT_EQ(tables[1]["base_reason"], "");
  EXPECT_EQ(tables[1]["deltas"], 3);
}

TEST_F(ToolChain, AsTable) {
  const ToolResult chain = Run({"chain", "400", "--tables"});
  EXPECT_EQ(chain.code, 0);
  EXPECT_EQ(chain.err, "");
  EXPECT_THAT(
      chain.out,
      AllOf(ContainsRegex("^STEP  ATTEMPT  KIND +ROWS  ERASED +TABLES +SAVED"),
            ContainsRegex("\n 100 .* full +15 +0 .* a step\n"),
            ContainsRegex("\n 200 .* delta +\\+2 +1 .* a step\n"),
            ContainsRegex("\n 400 .* delta +\\+2 +0 .* this step\n"),
            ContainsRegex("\ndeltas +3; the default limit is 50\n"),
            ContainsRegex("\ndelta bytes +[0-9.]+ K?i?B, [0-9.]+ of ")));
  EXPECT_THAT(chain.out,
              AllOf(ContainsRegex("\nitem +step 300 attempt [0-9]+ +1  "
                                  "the tracker ran over its bound\n"),
                    ContainsRegex("\nuser +step 100 attempt [0-9]+ +3  -\n")));
}

TEST_F(ToolChain, FullStepHasOneVersion) {
  const Json chain = RunJson({"chain", "100"});
  EXPECT_EQ(chain["kind"], "full");
  EXPECT_EQ(chain["deltas"], 0);
  EXPECT_EQ(chain["delta_ratio"], 0.0);
  EXPECT_EQ(chain["base_due_reason"], Json());
  ASSERT_EQ(chain["versions"].size(), 1u);
}

TEST_F(ToolChain, ShowsVersionsKeptForOtherSteps) {
  ASSERT_EQ(Run({"rm", "200"}).code, 0);
  const Json chain = RunJson({"chain", "400", "--tables"});
  ASSERT_EQ(chain["versions"].size(), 4u);
  const Json& kept = chain["versions"][1];
  EXPECT_EQ(kept["step"], 200);
  EXPECT_EQ(kept["is_step"], false);
  EXPECT_EQ(kept["kind"], "delta");
  EXPECT_EQ(kept["rows"], 2);
  EXPECT_GT(kept["exclusive_bytes"], 0);
  EXPECT_EQ(chain["versions"][2]["is_step"], true);
  EXPECT_THAT(Run({"chain", "400"}).out,
              ContainsRegex("\n 200 .* delta +\\+2 .* kept for others\n"));
}

TEST_F(ToolChain, ShowsThatATableMayBeginEarlier) {
  ASSERT_EQ(Run({"rm", "200"}).code, 0);
  const Json tables = RunJson({"chain", "400", "--tables"})["tables"];
  EXPECT_EQ(tables[0]["base"]["step"], 300);
  EXPECT_EQ(tables[1]["base"], Json());
  EXPECT_EQ(tables[1]["base_reason"], Json());
  EXPECT_EQ(tables[1]["deltas"], Json());
  EXPECT_THAT(Run({"chain", "400", "--tables"}).out,
              ContainsRegex("\nuser +step 200 attempt [0-9]+ or before +2\\+  "
                            "unknown\n"));
}

TEST_F(ToolChain, TableWithoutAKnownBaseBeginsInTheFirstVersion) {
  ASSERT_EQ(Run({"rm", "100"}).code, 0);
  const Json user = RunJson({"chain", "400", "--tables"})["tables"][1];
  EXPECT_EQ(user["base"]["step"], 100);
  EXPECT_EQ(user["base_reason"], Json());
  EXPECT_EQ(user["deltas"], 3);
}

TEST_F(ToolChain, FailsIfTheStepIsMissing) {
  const ToolResult chain = Run({"chain", "150"});
  EXPECT_EQ(chain.code, 2);
  EXPECT_EQ(chain.out, "");
  EXPECT_THAT(chain.err,
              AllOf(StartsWith("ckptdb: chain: "), HasSubstr("150")));
}

}  // namespace
}  // namespace ckptdb::testing
