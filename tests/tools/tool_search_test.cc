// SPDX-License-Identifier: Apache-2.0
// rows: the rows of a table that match.
#include <cmath>
#include <cstdint>
#include <fstream>
#include <limits>
#include <string>
#include <vector>

#include "tests/tools/tool_fixture.h"

namespace ckptdb::testing {
namespace {

class ToolSearch : public DeltaFixture {
 protected:
  // Runs with one more word, which may have spaces.
  ToolResult RunWith(const std::string& command, const std::string& word) {
    return RunLine(command, {word, "--store", path()});
  }
  std::vector<int64_t> Ids(const std::string& command,
                           const std::string& word) {
    const ToolResult result = RunWith("rows --json " + command, word);
    EXPECT_EQ(result.code, 0) << result.err;
    std::vector<int64_t> ids;
    const Json rows = result.Json()["rows"];
    for (const Json& row : rows) ids.push_back(row["id"].get<int64_t>());
    return ids;
  }
};

TEST_F(ToolSearch, RowsAsTable) {
  ExpectPrints(
      "rows user --limit 2 --step 200",
      ContainsRegex("^step 200 attempt [0-9]+, table user: 2 of 10 rows\n"
                    "ID  embedding                freq\n"
                    "-1  99 99.25 99.5 99.75         1\n"
                    " 0  100 100.25 100.5 100.75     1\n$"));
  ExpectPrints("rows user --ids 1,9,50 --slots freq --sort embedding[0]",
               ContainsRegex(": 1 of 1 row, 2 ids are missing\n"
                             "ID  embedding\\[0\\]  freq\n"
                             " 1           201     2\n$"));
}

TEST_F(ToolSearch, RowsAsJson) {
  const Json rows = RunJson("rows user --ids 50,1,8-9 --step 200");
  EXPECT_EQ(rows["store"], path());
  EXPECT_THAT(rows, Includes(R"({
      "step": 200, "table": "user", "matched_rows": 2, "read_rows": 2,
      "missing_ids": 2, "rows": [
        {"id": 1, "sort_value": null, "slots": [
          {"name": "embedding", "values": [201.0, 201.25, 201.5, 201.75]},
          {"name": "freq", "values": [2]}]},
        {"id": 50, "slots": [{}, {"name": "freq"}]}]})"));
  EXPECT_THAT(RunJson("rows user --limit 1 --slots freq,embedding"),
              Includes(R"({"missing_ids": null, "rows": [
                  {"slots": [{"name": "freq"}, {"name": "embedding"}]}]})"));
}

TEST_F(ToolSearch, WhereSelectsRows) {
  EXPECT_THAT(Ids("user --where", "freq > 1"), ElementsAre(-2, 1));
  EXPECT_THAT(Ids("user --step 200 --where", "freq > 1 & id > 1"),
              ElementsAre(50));
  EXPECT_THAT(Ids("user --where", "max(embedding) < 100 | id = 7"),
              ElementsAre(-1, 7));
  EXPECT_THAT(Ids("types --step 100 --where", "nan(f32) & !nan(f64)"),
              ElementsAre(7));
  EXPECT_THAT(Ids("user --ids 0-4 --where", "embedding[0] >= 102"),
              ElementsAre(1, 2, 3, 4));
}

TEST_F(ToolSearch, SortPutsTheLargestFirst) {
  EXPECT_THAT(Ids("user --limit 3 --sort", "norm(embedding)"),
              ElementsAre(-2, 1, 7));
  EXPECT_THAT(Ids("user --limit 3 --smallest --sort", "norm(embedding)"),
              ElementsAre(-1, 0, 2));
  // Rows of equal values are in order of id.
  EXPECT_THAT(Ids("user --limit 4 --sort", "freq"), ElementsAre(-2, 1, -1, 0));
  const Json rows =
      RunWith("rows user --json --limit 1 --sort", "sum(embedding)").Json();
  EXPECT_EQ(rows["rows"][0]["sort_value"], Json(4 * 298 + 1.5));
  EXPECT_EQ(rows["matched_rows"], 10);
}

TEST_F(ToolSearch, NanSortsFirst) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const std::vector<int64_t> ids = {1, 2, 3, 4, 5};
  const std::vector<float> values = {1, nan, 3, nan, INFINITY};
  const RowSource::Arrays rows(ids, {{values.data(), sizeof(float)}});
  RankState state;
  state.AddTable("bad", {{"w", DType::kF32, 1}}, &rows);
  Own();
  ASSERT_OK(store_->Save({.step = 900}, state).status());
  Disown();
  EXPECT_THAT(Ids("bad --sort", "w"), ElementsAre(2, 4, 5, 3, 1));
  EXPECT_THAT(Ids("bad --smallest --sort", "w"), ElementsAre(2, 4, 1, 3, 5));
  EXPECT_THAT(RunWith("rows bad --sort", "w").out,
              ContainsAll("\n 2 +nan +nan\n", "\n 5 +inf +inf\n"));
}

TEST_F(ToolSearch, IdsOfAFile) {
  std::ofstream(dir_.path() + "/ids") << "0-1\n7\n1000000\n";
  EXPECT_THAT(Ids("user --ids", dir_.path() + "/ids"), ElementsAre(0, 1, 7));
  // Longer lists are read by a scan.
  EXPECT_THAT(Ids("user --where freq>1 --ids", "-5-2000000"),
              ElementsAre(-2, 1));
  EXPECT_EQ(RunJson("rows user --ids 0-2000000")["missing_ids"], 2000001 - 8);
}

TEST_F(ToolSearch, CountsWithoutPrinting) {
  ExpectPrints("rows user --limit 0 --where freq>1",
               ContainsRegex("^[^\n]*: 0 of 2 rows that match\n$"));
}

TEST_F(ToolSearch, NamesWhatIsWrong) {
  ExpectFails("rows users", 2, HasSubstr("step 400 has no table \"users\""));
  ExpectFails("rows user --slots frek", 2,
              "ckptdb: rows: table \"user\" has no slot \"frek\"; its slots "
              "are embedding, freq\n");
  ExpectFails("rows user --where frek<3", 1,
              HasSubstr("invalid filter \"frek<3\": column 1: no slot "
                        "\"frek\"; the slots are embedding (f32 x 4), freq"));
  ExpectFails("rows user --sort embedding", 1, HasSubstr("norm"));
  ExpectFails("rows user --ids 5-1", 1, HasSubstr("invalid range \"5-1\""));
  ExpectFails("rows user --ids /none", 2, HasSubstr("nor a readable file"));
  ExpectFails("rows user --limit 100001", 1, HasSubstr("--limit"));
  EXPECT_EQ(RunTool({"rows", "user", "-s", dir_.path()}).code, 2);
}

TEST_F(ToolSearch, HelpDescribesFilters) {
  EXPECT_THAT(RunTool({"rows", "--help"}).out,
              AllOf(HasSubstr("A filter compares numbers"),
                    HasSubstr("ckptdb rows user --where")));
}

class BigToolSearch : public BigDeltaFixture {};

TEST_F(BigToolSearch, ReportsDamage) {
  ASSERT_EQ(RunJson("rows t --where v[0]>=0 --step 100")["matched_rows"],
            20000);
  DamageLargestFile();
  ExpectFails("rows t --where v[0]>=0 --step 100", 3, HasSubstr("step 100"));
}

}  // namespace
}  // namespace ckptdb::testing
