// SPDX-License-Identifier: Apache-2.0
// row, history: one row in a step, and in all steps.
#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "tests/tools/tool_fixture.h"

namespace ckptdb::testing {
namespace {

using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pair;
using ::testing::StartsWith;
using Json = nlohmann::json;

class ToolRows : public DeltaFixture {
 protected:
  using Events = std::vector<std::pair<int64_t, std::string>>;

  // Returns the steps and what happened in them.
  Events History(const std::string& table, const std::string& id) const {
    const Json history = RunJson({"history", table, id});
    EXPECT_EQ(history["complete"], true);
    Events events;
    for (const Json& event : history["events"]) {
      events.emplace_back(event["step"].get<int64_t>(),
                          event["change"].get<std::string>());
    }
    return events;
  }
};

TEST_F(ToolRows, RowAsJson) {
  const Json row = RunJson({"row", "user", "1"});
  EXPECT_EQ(row["store"], path());
  EXPECT_EQ(row["step"], 400);
  EXPECT_TRUE(row["attempt"].is_number_unsigned());
  EXPECT_EQ(row["table"], "user");
  EXPECT_EQ(row["id"], 1);
  ASSERT_EQ(row["slots"].size(), 2u);
  EXPECT_EQ(row["slots"][0]["name"], "embedding");
  EXPECT_EQ(row["slots"][0]["dtype"], "f32");
  EXPECT_EQ(row["slots"][0]["elements"], 4);
  EXPECT_EQ(row["slots"][0]["values"], (Json{201.0, 201.25, 201.5, 201.75}));
  EXPECT_EQ(row["slots"][1]["name"], "freq");
  EXPECT_EQ(row["slots"][1]["values"], Json{2});
}

TEST_F(ToolRows, RowOfAnOlderStep) {
  const Json row = RunJson({"row", "user", "1", "--step", "100"});
  EXPECT_EQ(row["step"], 100);
  EXPECT_EQ(row["slots"][0]["values"], (Json{101.0, 101.25, 101.5, 101.75}));
}

TEST_F(ToolRows, RowOfANegativeId) {
  const Json row = RunJson({"row", "user", "-2", "--step", "latest"});
  EXPECT_EQ(row["id"], -2);
  EXPECT_EQ(row["slots"][1]["values"], Json{3});
  EXPECT_EQ(RunJson({"row", "user", "-1"})["slots"][1]["values"], Json{1});
}

TEST_F(ToolRows, RowAsText) {
  const ToolResult row = Run({"row", "user", "1"});
  EXPECT_EQ(row.code, 0);
  EXPECT_EQ(row.err, "");
  EXPECT_THAT(row.out, ContainsRegex("^step 400 attempt [0-9]+, table user, "
                                     "row 1\n"));
  EXPECT_THAT(row.out, ContainsRegex("\n  embedding  f32 +4  201 201\\.25 "
                                     "201\\.5 201\\.75\n"));
  EXPECT_THAT(row.out, ContainsRegex("\n  freq +u32 +1  2\n"));
}

TEST_F(ToolRows, RowDecodesEveryDType) {
  const Json row = RunJson({"row", "types", "7", "--step", "100"});
  const double f32 = 0.1F;
  const std::vector<std::pair<std::string, Json>> expected = {
      {"f64", {0.1, "-inf"}},           {"f32", {f32, "nan"}},
      {"f16", {1.0009765625, 65504.0}}, {"bf16", {1.0078125, "inf"}},
      {"f8e4m3", {1.125, "nan"}},       {"f8e5m2", {1.25, "-inf"}},
      {"i64", {INT64_MIN, INT64_MAX}},  {"i32", {INT32_MIN, INT32_MAX}},
      {"i16", {INT16_MIN, INT16_MAX}},  {"i8", {INT8_MIN, INT8_MAX}},
      {"u64", {0, UINT64_MAX}},         {"u32", {0, UINT32_MAX}},
      {"u16", {0, UINT16_MAX}},         {"u8", {0, UINT8_MAX}},
      {"bool", {true, false}}};
  ASSERT_EQ(row["slots"].size(), expected.size());
  for (size_t i = 0; i < expected.size(); ++i) {
    EXPECT_EQ(row["slots"][i]["dtype"], expected[i].first);
    EXPECT_EQ(row["slots"][i]["values"], expected[i].second)
        << expected[i].first;
  }
  EXPECT_THAT(Run({"row", "types", "7", "--step", "100"}).out,
              AllOf(ContainsRegex("\n  f16 +f16 +2  1\\.0009766 65504\n"),
                    ContainsRegex("\n  f8e4m3 +f8e4m3 +2  1\\.125 nan\n"),
                    ContainsRegex("\n  bool +bool +2  true false\n")));
}

TEST_F(ToolRows, NamesAMissingRow) {
  ToolResult row = Run({"row", "user", "-2", "--step", "200"});
  EXPECT_EQ(row.code, 2);
  EXPECT_EQ(row.out, "");
  EXPECT_EQ(row.err,
            "ckptdb: row: step 200 table \"user\" has no row with id -2\n");
  row = Run({"row", "user", "9999"});
  EXPECT_EQ(row.code, 2);
  EXPECT_THAT(row.err, HasSubstr("step 400 table \"user\" has no row with id "
                                 "9999"));
}

TEST_F(ToolRows, NamesAMissingTableOrStep) {
  ToolResult row = Run({"row", "types", "7"});
  EXPECT_EQ(row.code, 2);
  EXPECT_EQ(row.err, "ckptdb: row: step 400 has no table \"types\"\n");
  row = Run({"row", "user", "1", "--step", "150"});
  EXPECT_EQ(row.code, 2);
  EXPECT_THAT(row.err, HasSubstr("150"));
}

// A trainer casts uint64 ids to int64.
TEST_F(ToolRows, UnsignedIdsAreReadByTheirBits) {
  const std::vector<int64_t> ids = {-1, std::numeric_limits<int64_t>::min()};
  const std::vector<float> values = {0.5F, 0.25F};
  const RowSource::Arrays rows(ids, {{values.data(), sizeof(float)}});
  RankState state;
  state.AddTable("hashed", {{"w", DType::kF32, 1}}, &rows);
  Own();
  ASSERT_OK(store_->Save({.step = 900}, state).status());
  Disown();
  const Json row = RunJson({"row", "hashed", "18446744073709551615"});
  EXPECT_EQ(row["id"], -1);
  EXPECT_EQ(RunJson({"row", "hashed", "-1"}), row);
  EXPECT_EQ(RunJson({"row", "hashed", "9223372036854775808"})["id"],
            std::numeric_limits<int64_t>::min());
}

TEST_F(ToolRows, RejectsAnInvalidId) {
  for (const char* command : {"row", "history"}) {
    for (const char* id :
         {"x", "1.5", "18446744073709551616", "-9223372036854775809"}) {
      const ToolResult result = Run({command, "user", id});
      EXPECT_EQ(result.code, 1) << id;
      EXPECT_EQ(result.out, "");
      EXPECT_THAT(result.err, HasSubstr("invalid id \"" + std::string(id) +
                                        "\"; expected -2^63 to 2^64 - 1"));
    }
  }
}

TEST_F(ToolRows, HistoryListsStepsThatChangedValues) {
  // Step 400 writes the same values again.
  EXPECT_THAT(History("user", "1"),
              ElementsAre(Pair(100, "appeared"), Pair(200, "changed")));
  EXPECT_THAT(History("user", "7"), ElementsAre(Pair(100, "appeared")));
}

TEST_F(ToolRows, HistoryListsErasures) {
  EXPECT_THAT(History("user", "-2"),
              ElementsAre(Pair(100, "appeared"), Pair(200, "erased"),
                          Pair(300, "appeared")));
  EXPECT_THAT(History("user", "50"),
              ElementsAre(Pair(200, "appeared"), Pair(300, "erased")));
}

TEST_F(ToolRows, HistoryComparesFullSavesOfATable) {
  EXPECT_THAT(History("item", "3"),
              ElementsAre(Pair(100, "appeared"), Pair(300, "changed")));
  EXPECT_THAT(History("item", "2"),
              ElementsAre(Pair(100, "appeared"), Pair(400, "changed")));
}

TEST_F(ToolRows, HistoryShowsADroppedTable) {
  EXPECT_THAT(History("types", "7"),
              ElementsAre(Pair(100, "appeared"), Pair(200, "dropped")));
}

TEST_F(ToolRows, HistorySkipsRemovedSteps) {
  ASSERT_EQ(Run({"rm", "200"}).code, 0);
  EXPECT_THAT(History("user", "1"),
              ElementsAre(Pair(100, "appeared"), Pair(300, "changed")));
  EXPECT_THAT(History("user", "-2"),
              ElementsAre(Pair(100, "appeared"), Pair(300, "changed")));
}

TEST_F(ToolRows, HistoryAsJson) {
  const Json history = RunJson({"history", "user", "1"});
  EXPECT_EQ(history["store"], path());
  EXPECT_EQ(history["table"], "user");
  EXPECT_EQ(history["id"], 1);
  ASSERT_EQ(history["events"].size(), 2u);
  const Json& changed = history["events"][1];
  EXPECT_EQ(changed["step"], 200);
  EXPECT_TRUE(changed["attempt"].is_number_unsigned());
  EXPECT_TRUE(changed["committed_at_micros"].is_number());
  EXPECT_EQ(changed["changed_slots"], (Json{"embedding", "freq"}));
  EXPECT_EQ(changed["slots"][0]["values"],
            (Json{201.0, 201.25, 201.5, 201.75}));
  const Json erased = RunJson({"history", "user", "50"})["events"][1];
  EXPECT_THAT(erased["slots"], IsEmpty());
  EXPECT_THAT(erased["changed_slots"], IsEmpty());
}

TEST_F(ToolRows, HistoryAsTable) {
  const ToolResult history = Run({"history", "user", "1"});
  EXPECT_EQ(history.code, 0);
  EXPECT_EQ(history.err, "");
  EXPECT_THAT(history.out,
              ContainsRegex("^STEP  ATTEMPT  COMMITTED \\(UTC\\) +ROW +SLOTS\n"
                            " 100 .* appeared  -\n"
                            " 200 .* changed +embedding freq\n$"));
}

TEST_F(ToolRows, HistoryFailsIfTheRowOrTableIsMissing) {
  ToolResult history = Run({"history", "user", "9999"});
  EXPECT_EQ(history.code, 2);
  EXPECT_EQ(history.out, "");
  EXPECT_EQ(history.err, "ckptdb: history: " + path() +
                             ": no step has a row with id 9999 in table "
                             "\"user\"\n");
  history = Run({"history", "users", "1"});
  EXPECT_EQ(history.code, 2);
  EXPECT_EQ(history.err,
            "ckptdb: history: " + path() + ": no step has a table \"users\"\n");
}

class BigToolRows : public BigDeltaFixture {};

TEST_F(BigToolRows, RowShowsTheFirstElements) {
  EXPECT_THAT(
      Run({"row", "t", "9900"}).out,
      ContainsRegex("\n  v +f32 +128  3 3 3 3 3 3 3 3 \\.\\.\\. 120 more\n"));
  EXPECT_EQ(RunJson({"row", "t", "9900"})["slots"][0]["values"].size(), 128u);
}

// The damaged page contains the row in step 100.
TEST_F(BigToolRows, HistoryStopsAtDamage) {
  DamageLargestFile();
  const ToolResult history = Run({"history", "t", "9900", "--json"});
  EXPECT_EQ(history.code, 3);
  EXPECT_THAT(history.err,
              AllOf(StartsWith("ckptdb: history: "), HasSubstr("step 100")));
  const Json json = history.Json();
  EXPECT_EQ(json["complete"], false);
  ASSERT_EQ(json["events"].size(), 1u);
  EXPECT_EQ(json["events"][0]["step"], 50);
  const ToolResult row = Run({"row", "t", "9900", "--step", "100"});
  EXPECT_EQ(row.code, 3);
  EXPECT_EQ(row.out, "");
}

TEST_F(ToolRows, ReadALiveStore) {
  Own();
  EXPECT_EQ(Run({"row", "user", "1"}).code, 0);
  EXPECT_EQ(Run({"history", "user", "1"}).code, 0);
  EXPECT_EQ(Run({"chain", "latest"}).code, 0);
}

TEST_F(ToolRows, HelpDescribesTheCostOfHistory) {
  EXPECT_THAT(RunTool({"history", "--help"}).out,
              AllOf(HasSubstr("Reads all committed steps"),
                    HasSubstr("ckptdb history user 4711")));
}

}  // namespace
}  // namespace ckptdb::testing
