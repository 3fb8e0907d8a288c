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

class ToolRows : public DeltaFixture {};

TEST_F(ToolRows, RowAsJson) {
  const Json row = RunJson("row user 1");
  EXPECT_EQ(row["store"], path());
  EXPECT_TRUE(row["attempt"].is_number_unsigned());
  EXPECT_THAT(row, Includes(R"({
      "step": 400, "table": "user", "id": 1, "slots": [
        {"name": "embedding", "dtype": "f32", "elements": 4,
         "values": [201.0, 201.25, 201.5, 201.75]},
        {"name": "freq", "values": [2]}]})"));
}

TEST_F(ToolRows, RowOfAnOlderStep) {
  EXPECT_THAT(RunJson("row user 1 --step 100"), Includes(R"({
      "step": 100, "slots": [{"values": [101.0, 101.25, 101.5, 101.75]}, {}]
      })"));
}

TEST_F(ToolRows, RowOfANegativeId) {
  EXPECT_THAT(RunJson("row user -2 --step latest"),
              Includes(R"({"id": -2, "slots": [{}, {"values": [3]}]})"));
  EXPECT_EQ(RunJson("row user -1")["slots"][1]["values"], Json{1});
}

TEST_F(ToolRows, RowAsText) {
  ExpectPrints(
      "row user 1",
      ContainsAll("^step 400 attempt [0-9]+, table user, row 1\n",
                  "\n  embedding  f32 +4  201 201\\.25 201\\.5 201\\.75\n",
                  "\n  freq +u32 +1  2\n"));
}

TEST_F(ToolRows, RowDecodesEveryDType) {
  const Json row = RunJson("row types 7 --step 100");
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
  EXPECT_THAT(Run("row types 7 --step 100").out,
              ContainsAll("\n  f16 +f16 +2  1\\.0009766 65504\n",
                          "\n  f8e4m3 +f8e4m3 +2  1\\.125 nan\n",
                          "\n  bool +bool +2  true false\n"));
}

TEST_F(ToolRows, NamesAMissingRowTableOrStep) {
  ExpectFails("row user -2 --step 200", 2,
              "ckptdb: row: step 200 table \"user\" has no row with id -2\n");
  ExpectFails("row user 9999", 2,
              HasSubstr("step 400 table \"user\" has no row with id 9999"));
  ExpectFails("row types 7", 2,
              "ckptdb: row: step 400 has no table \"types\"\n");
  ExpectFails("row user 1 --step 150", 2, HasSubstr("150"));
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
  const Json row = RunJson("row hashed 18446744073709551615");
  EXPECT_EQ(row["id"], -1);
  EXPECT_EQ(RunJson("row hashed -1"), row);
  EXPECT_EQ(RunJson("row hashed 9223372036854775808")["id"],
            std::numeric_limits<int64_t>::min());
}

TEST_F(ToolRows, RejectsAnInvalidId) {
  for (const std::string command : {"row user ", "history user "}) {
    for (const char* id :
         {"x", "1.5", "18446744073709551616", "-9223372036854775809"}) {
      ExpectRun(command + id, 1, "",
                HasSubstr("invalid id \"" + std::string(id) +
                          "\"; expected -2^63 to 2^64 - 1"));
    }
  }
}

class ToolHistory : public DeltaFixture {
 protected:
  // Expects these steps, with what happened in them.
  void Expect(const std::string& table, const std::string& id,
              const std::vector<std::pair<int64_t, std::string>>& expected) {
    SCOPED_TRACE(table + " " + id);
    const Json history = RunJson("history " + table + " " + id);
    EXPECT_EQ(history["complete"], true);
    std::vector<std::pair<int64_t, std::string>> events;
    for (const Json& event : history["events"]) {
      events.emplace_back(event["step"].get<int64_t>(),
                          event["change"].get<std::string>());
    }
    EXPECT_EQ(events, expected);
  }
};

TEST_F(ToolHistory, ListsChangesErasuresAndDroppedTables) {
  // Step 400 writes the same values again.
  Expect("user", "1", {{100, "appeared"}, {200, "changed"}});
  Expect("user", "7", {{100, "appeared"}});
  Expect("user", "-2", {{100, "appeared"}, {200, "erased"}, {300, "appeared"}});
  Expect("user", "50", {{200, "appeared"}, {300, "erased"}});
  Expect("types", "7", {{100, "appeared"}, {200, "dropped"}});
  // Full saves of a table are compared.
  Expect("item", "3", {{100, "appeared"}, {300, "changed"}});
  Expect("item", "2", {{100, "appeared"}, {400, "changed"}});
}

TEST_F(ToolHistory, SkipsRemovedSteps) {
  ASSERT_EQ(Run("rm 200").code, 0);
  Expect("user", "1", {{100, "appeared"}, {300, "changed"}});
  Expect("user", "-2", {{100, "appeared"}, {300, "changed"}});
}

TEST_F(ToolHistory, AsJson) {
  const Json history = RunJson("history user 1");
  EXPECT_EQ(history["store"], path());
  EXPECT_THAT(history, Includes(R"({
      "table": "user", "id": 1, "events": [{}, {
        "step": 200, "changed_slots": ["embedding", "freq"],
        "slots": [{"values": [201.0, 201.25, 201.5, 201.75]}, {}]}]})"));
  const Json& changed = history["events"][1];
  EXPECT_TRUE(changed["attempt"].is_number_unsigned());
  EXPECT_TRUE(changed["committed_at_micros"].is_number());
  EXPECT_THAT(RunJson("history user 50")["events"][1],
              Includes(R"({"slots": [], "changed_slots": []})"));
}

TEST_F(ToolHistory, AsTable) {
  ExpectPrints("history user 1",
               ContainsRegex("^STEP  ATTEMPT  COMMITTED \\(UTC\\) +ROW +SLOTS\n"
                             " 100 .* appeared  -\n"
                             " 200 .* changed +embedding freq\n$"));
}

TEST_F(ToolHistory, FailsIfTheRowOrTableIsMissing) {
  const std::string here = "ckptdb: history: " + path();
  ExpectFails("history user 9999", 2,
              here + ": no step has a row with id 9999 in table \"user\"\n");
  ExpectFails(
      "history users 1", 2,
      here + ": no step has a table \"users\"; did you mean \"user\"?\n");
}

class BigToolRows : public BigDeltaFixture {};

TEST_F(BigToolRows, RowShowsTheFirstElements) {
  EXPECT_THAT(
      Run("row t 9900").out,
      ContainsRegex("\n  v +f32 +128  3 3 3 3 3 3 3 3 \\.\\.\\. 120 more\n"));
  EXPECT_EQ(RunJson("row t 9900")["slots"][0]["values"].size(), 128u);
}

// The damaged page contains the row in step 100.
TEST_F(BigToolRows, HistoryStopsAtDamage) {
  DamageLargestFile();
  const ToolResult history = Run("history t 9900 --json");
  EXPECT_EQ(history.code, 3);
  EXPECT_THAT(history.err,
              AllOf(StartsWith("ckptdb: history: "), HasSubstr("step 100")));
  EXPECT_THAT(history.Json(),
              Includes(R"({"complete": false, "events": [{"step": 50}]})"));
  ExpectFails("row t 9900 --step 100", 3, ::testing::_);
}

TEST_F(ToolRows, ReadALiveStore) {
  Own();
  for (const char* command : {"row user 1", "history user 1", "chain latest"}) {
    EXPECT_EQ(Run(command).code, 0) << command;
  }
}

TEST_F(ToolRows, HelpDescribesTheCostOfHistory) {
  EXPECT_THAT(RunTool({"history", "--help"}).out,
              AllOf(HasSubstr("Reads all committed steps"),
                    HasSubstr("ckptdb history user 4711")));
}

}  // namespace
}  // namespace ckptdb::testing
