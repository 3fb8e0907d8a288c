// SPDX-License-Identifier: Apache-2.0
// du --tables: bytes by table over all steps.
#include <cstdint>
#include <map>
#include <string>

#include "tests/tools/tool_fixture.h"

namespace ckptdb::testing {
namespace {

using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using Json = nlohmann::json;

class ToolTablesUsage : public DeltaFixture {
 protected:
  // Returns the bytes that the steps store themselves, by kind and by table,
  // from the records of their items.
  std::map<std::string, uint64_t> StoredByItems() const {
    std::map<std::string, uint64_t> bytes;
    for (const int64_t step : Steps()) {
      const Json items = RunJson({"items", std::to_string(step)});
      for (const Json& item : items["items"]) {
        if (item["borrowed"] == true) continue;
        const bool table = item["kind"] == "table";
        bytes[(table ? item["name"] : item["kind"]).get<std::string>()] +=
            item["stored_bytes"].get<uint64_t>();
      }
    }
    return bytes;
  }
};

TEST_F(ToolTablesUsage, AddsUpToTheSteps) {
  const Json du = RunJson({"du", "--tables"});
  const auto stored = StoredByItems();
  uint64_t sum = du["tensors"]["exclusive_bytes"].get<uint64_t>() +
                 du["blobs"]["exclusive_bytes"].get<uint64_t>();
  ASSERT_EQ(du["tables"].size(), 3u);
  for (const Json& table : du["tables"]) {
    sum += table["exclusive_bytes"].get<uint64_t>();
    EXPECT_EQ(table["exclusive_bytes"],
              stored.at(table["name"].get<std::string>()));
    EXPECT_EQ(table["referenced_bytes"], 0);
  }
  EXPECT_EQ(sum, du["exclusive_bytes"]);
  EXPECT_EQ(du["tensors"]["exclusive_bytes"], stored.at("tensor"));
  EXPECT_EQ(du["tensors"]["step_count"],
            1);  // the others use the tensor of step 100
  EXPECT_EQ(du["blobs"]["exclusive_bytes"], stored.at("blob"));
  EXPECT_EQ(du["tables"][0]["name"], "item");
  EXPECT_EQ(du["tables"][1]["name"], "types");
  EXPECT_EQ(du["tables"][1]["step_count"], 1);
  EXPECT_EQ(du["tables"][1]["delta_bytes"], 0);
  EXPECT_EQ(du["tables"][2]["name"], "user");
  EXPECT_EQ(du["tables"][2]["step_count"], 4);
  EXPECT_GT(du["tables"][2]["delta_bytes"], 0);
  EXPECT_LT(du["tables"][2]["delta_bytes"], du["tables"][2]["exclusive_bytes"]);
}

TEST_F(ToolTablesUsage, ShowsKeptBytes) {
  const Json before = RunJson({"du", "--tables"});
  const Json base = RunJson({"items", "100", "user"})["items"][0];
  const Json weights = RunJson({"items", "100", "w"})["items"][0];
  ASSERT_EQ(Run({"rm", "100"}).code, 0);
  const Json du = RunJson({"du", "--tables"});
  const Json& user = du["tables"][1];
  EXPECT_EQ(user["name"], "user");
  EXPECT_EQ(user["step_count"], 3);
  EXPECT_EQ(user["referenced_bytes"], base["stored_bytes"]);
  EXPECT_EQ(user["exclusive_bytes"], user["delta_bytes"]);
  EXPECT_EQ(user["exclusive_bytes"].get<uint64_t>() +
                user["referenced_bytes"].get<uint64_t>(),
            before["tables"][2]["exclusive_bytes"].get<uint64_t>());
  // Three steps use them, but they count once.
  EXPECT_EQ(du["tensors"]["referenced_bytes"], weights["stored_bytes"]);
  EXPECT_EQ(du["tensors"]["exclusive_bytes"], 0);
  EXPECT_EQ(du["tensors"]["step_count"], 0);
}

TEST_F(ToolTablesUsage, AsText) {
  const ToolResult du = Run({"du", "--tables"});
  EXPECT_EQ(du.code, 0);
  EXPECT_EQ(du.err, "");
  EXPECT_THAT(
      du.out,
      AllOf(ContainsRegex("^STEP +ATTEMPT +OWN +BORROWED\n"),
            ContainsRegex("\nWHAT +NAME +STEPS +OWN +OF DELTAS +KEPT FOR"),
            ContainsRegex("\ntensors +- +1 +[0-9]+ B +- +0 B\n"),
            ContainsRegex("\ntable +user +4 +[0-9.]+ [KB].* +0 B\n"),
            ContainsRegex("\nblobs +- +1 +[0-9]+ B +- +0 B\n"),
            ContainsRegex("\non disk +")));
}

TEST_F(ToolTablesUsage, IsPrintedOnRequest) {
  EXPECT_FALSE(RunJson({"du"}).contains("tables"));
  EXPECT_THAT(Run({"du"}).out, Not(HasSubstr("tensors  ")));
}

TEST_F(ToolTablesUsage, ReadsALiveStore) {
  Own();
  EXPECT_EQ(RunJson({"du", "-t"})["tables"].size(), 3u);
  ASSERT_OK(store_->Delete(400));
  EXPECT_EQ(RunJson({"du", "-t"})["tables"][2]["step_count"], 3);
}

TEST_F(ToolTablesUsage, EmptyStoreHasNoTables) {
  const std::string path = dir_.path() + "/empty";
  ASSERT_OK_AND_ASSIGN(store_, Store::Open(path));
  const ToolResult du = RunTool({"du", "--tables", "--json", "-s", path});
  EXPECT_EQ(du.code, 0);
  EXPECT_THAT(du.Json()["tables"], IsEmpty());
  EXPECT_EQ(du.Json()["tensors"]["exclusive_bytes"], 0);
}

TEST_F(ToolTablesUsage, FailsIfTheStoreIsMissing) {
  const ToolResult du = RunTool({"du", "--tables", "-s", dir_.path() + "/no"});
  EXPECT_EQ(du.code, 2);
  EXPECT_EQ(du.out, "");
  EXPECT_THAT(du.err, HasSubstr(dir_.path() + "/no"));
}

}  // namespace
}  // namespace ckptdb::testing
