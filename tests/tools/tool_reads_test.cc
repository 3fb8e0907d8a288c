// SPDX-License-Identifier: Apache-2.0
// ls, show, items, verify, du: they print what was saved.
#include <cstdint>
#include <string>
#include <vector>

#include "tests/tools/tool_fixture.h"

namespace ckptdb::testing {
namespace {

using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;
using Json = nlohmann::json;

class ToolReads : public ToolFixture {};

const Json* FindItem(const Json& document, uint32_t rank,
                     const std::string& name) {
  for (const Json& item : document["items"]) {
    if (item["rank"] == rank && item["name"] == name) return &item;
  }
  return nullptr;
}

TEST_F(ToolReads, LsAsJson) {
  const Json ls = RunJson({"ls"});
  EXPECT_EQ(ls["store"], path());
  EXPECT_EQ(ls["uuid"].get<std::string>().size(), 36u);
  EXPECT_EQ(ls["store_metadata"], (Json{{"run", "sample\n1"}}));
  ASSERT_EQ(ls["steps"].size(), 3u);
  const Json& first = ls["steps"][0];
  EXPECT_EQ(first["step"], 100);
  EXPECT_TRUE(first["attempt"].is_number_unsigned());
  EXPECT_EQ(first["kind"], "full");
  EXPECT_EQ(first["pinned"], false);
  EXPECT_EQ(first["ephemeral"], false);
  EXPECT_EQ(first["quarantined"], false);
  EXPECT_EQ(first["world_size"], 1);
  EXPECT_EQ(first["rows"], 1000);
  EXPECT_EQ(first["items"], 4);
  const Json& second = ls["steps"][1];
  EXPECT_EQ(second["step"], 200);
  EXPECT_EQ(second["pinned"], true);
  EXPECT_GE(second["exclusive_bytes"], kBigElements * 4);
  const Json& third = ls["steps"][2];
  EXPECT_EQ(third["step"], 300);
  EXPECT_EQ(third["ephemeral"], true);
  EXPECT_EQ(third["world_size"], 2);
  EXPECT_EQ(third["rows"], 1500);
}

TEST_F(ToolReads, LsAsTable) {
  const ToolResult ls = Run({"ls"});
  EXPECT_EQ(ls.code, 0);
  EXPECT_EQ(ls.err, "");
  EXPECT_THAT(ls.out,
              ContainsRegex("^STEP +KIND +CHAIN +FLAGS +RANKS +ROWS +ERASED"));
  EXPECT_THAT(ls.out, ContainsRegex("\n 100  full +1  - +1  1,000 "));
  EXPECT_THAT(ls.out,
              ContainsRegex("\n 200  full +1  pinned +1  1,200 +0 +9\\.. MiB"));
  EXPECT_THAT(ls.out, ContainsRegex("\n 300  full +1  ephemeral +2  1,500 "));
}

TEST_F(ToolReads, ShowAsJson) {
  const Json show = RunJson({"show", "100"});
  EXPECT_EQ(show["store"], path());
  EXPECT_EQ(show["step"], 100);
  EXPECT_EQ(show["world_size"], 1);
  EXPECT_EQ(show["parent"], Json());
  ASSERT_EQ(show["chain"].size(), 1u);
  EXPECT_EQ(show["chain"][0]["step"], 100);
  EXPECT_EQ(show["chain"][0]["attempt"], show["attempt"]);
  EXPECT_EQ(show["metrics"], (Json{{"auc", 0.75}, {"loss", "nan"}}));
  EXPECT_EQ(show["user_metadata"]["note"], "first\nrun");
  EXPECT_EQ(show["user_metadata"]["raw"], "\xef\xbf\xbd\x01");
  EXPECT_EQ(show["store_metadata"], (Json{{"run", "sample\n1"}}));
  EXPECT_EQ(show["kinds"]["tensor"]["items"], 2);
  EXPECT_EQ(show["kinds"]["tensor"]["raw_bytes"], 48 + 8);
  EXPECT_EQ(show["kinds"]["table"]["rows"], 1000);
  EXPECT_EQ(show["kinds"]["blob"]["raw_bytes"], 11);
  EXPECT_EQ(show["totals"]["items"], 4);
  ASSERT_EQ(show["ranks"].size(), 1u);
  EXPECT_EQ(show["ranks"][0]["digest"].get<std::string>().size(), 16u);
}

TEST_F(ToolReads, ShowPrintsTheSlicesOfRanks) {
  const Json show = RunJson({"show", "300"});
  EXPECT_EQ(show["slice_bounds"], (Json{0, 32768, 65536}));
  ASSERT_EQ(show["ranks"].size(), 2u);
  EXPECT_EQ(show["ranks"][0]["totals"]["rows"], 750);
  EXPECT_EQ(show["ranks"][1]["totals"]["rows"], 750);
  EXPECT_THAT(Run({"show", "300"}).out,
              AllOf(ContainsRegex("  1  \\[32768, 65536\\) +2  +750 "),
                    ContainsRegex("\nflags +ephemeral\n")));
}

TEST_F(ToolReads, ShowAsText) {
  const ToolResult show = Run({"show", "100"});
  EXPECT_EQ(show.code, 0);
  EXPECT_EQ(show.err, "");
  EXPECT_THAT(show.out, ContainsRegex("^step +100\n"));
  EXPECT_THAT(show.out, ContainsRegex("\ncommitted +20[0-9-]+ [0-9:]+ UTC, "));
  EXPECT_THAT(show.out, ContainsRegex("\n  auc +0\\.75\n"));
  EXPECT_THAT(show.out, ContainsRegex("\n  note +first\\\\nrun\n"));
  EXPECT_THAT(show.out, ContainsRegex("\n  raw +\\\\xff\\\\x01\n"));
  EXPECT_THAT(show.out,
              ContainsRegex("\nmetadata of the store\n  run +sample\\\\n1\n"));
  EXPECT_THAT(show.out, ContainsRegex("\n  table +1  1,000 "));
}

TEST_F(ToolReads, LatestIsTheHighestStep) {
  EXPECT_EQ(RunJson({"show", "latest"})["step"], 300);
  EXPECT_EQ(RunJson({"items", "latest"})["step"], 300);
}

TEST_F(ToolReads, ItemsOfOneRank) {
  const Json items = RunJson({"items", "100"});
  EXPECT_EQ(items["items"].size(), 4u);
  const Json* weight = FindItem(items, 0, "mlp.weight");
  ASSERT_NE(weight, nullptr);
  EXPECT_EQ((*weight)["kind"], "tensor");
  EXPECT_EQ((*weight)["dtype"], "f32");
  EXPECT_EQ((*weight)["shape"], (Json{3, 4}));
  EXPECT_EQ((*weight)["raw_bytes"], 48);
  EXPECT_EQ((*weight)["placement"], "inline");
  EXPECT_EQ((*weight)["data_version"]["step"], 100);
  EXPECT_EQ((*weight)["borrowed"], false);
  const Json* scalar = FindItem(items, 0, "step");
  ASSERT_NE(scalar, nullptr);
  EXPECT_EQ((*scalar)["dtype"], "i64");
  EXPECT_EQ((*scalar)["shape"], Json::array());
  const Json* user = FindItem(items, 0, "user");
  ASSERT_NE(user, nullptr);
  EXPECT_EQ((*user)["kind"], "table");
  EXPECT_EQ((*user)["rows"], 1000);
  EXPECT_EQ((*user)["run"], "base");
  ASSERT_EQ((*user)["slots"].size(), 2u);
  EXPECT_EQ((*user)["slots"][0]["name"], "embedding");
  EXPECT_EQ((*user)["slots"][0]["elements"], 16);
  EXPECT_EQ((*user)["slots"][0]["row_bytes"], 64);
  EXPECT_EQ((*user)["slots"][1]["codec"], "lz4");
  const Json* reader = FindItem(items, 0, "reader");
  ASSERT_NE(reader, nullptr);
  EXPECT_EQ((*reader)["kind"], "blob");
  EXPECT_EQ((*reader)["raw_bytes"], 11);
}

TEST_F(ToolReads, ItemsOfShards) {
  const Json items = RunJson({"items", "300", "mlp.*"});
  ASSERT_EQ(items["items"].size(), 2u);
  const Json* shard = FindItem(items, 1, "mlp.weight");
  ASSERT_NE(shard, nullptr);
  EXPECT_EQ((*shard)["shape"], (Json{3, 4}));
  EXPECT_EQ((*shard)["global_shape"], (Json{6, 4}));
  EXPECT_EQ((*shard)["offset"], (Json{3, 0}));
  EXPECT_THAT(Run({"items", "300", "mlp.*", "--rank", "1"}).out,
              HasSubstr("f32[3, 4] at [3, 0] of [6, 4]"));
}

TEST_F(ToolReads, ItemsNameTheVersionOfTheirData) {
  const Json items = RunJson({"items", "200", "mlp.weight"});
  ASSERT_EQ(items["items"].size(), 1u);
  const Json& weight = items["items"][0];
  EXPECT_EQ(weight["borrowed"], true);
  EXPECT_EQ(weight["data_version"]["step"], 100);
  const Json show = RunJson({"show", "200"});
  EXPECT_EQ(show["references"][0]["step"], 100);
  EXPECT_GE(show["kinds"]["tensor"]["borrowed_bytes"], 48);
}

TEST_F(ToolReads, ItemsAreFiltered) {
  const ToolResult nothing = Run({"items", "100", "nothing*"});
  EXPECT_EQ(nothing.code, 2);
  EXPECT_EQ(nothing.err,
            "ckptdb: items: step 100 has no item that matches \"nothing*\"\n");
  EXPECT_EQ(RunJson({"items", "300", "--rank", "0"})["items"].size(), 2u);
  const ToolResult none = Run({"items", "300", "--rank", "2"});
  EXPECT_EQ(none.code, 2);
  EXPECT_EQ(none.err,
            "ckptdb: items: step 300 has no rank 2: its world size is 2\n");
}

TEST_F(ToolReads, ItemsAsTable) {
  const ToolResult items = Run({"items", "100"});
  EXPECT_EQ(items.code, 0);
  EXPECT_THAT(items.out,
              ContainsRegex("\n   0  table +user +embedding:f32x16 "
                            "freq:u32 +undeclared +base +1,000 +- "));
  EXPECT_THAT(items.out,
              ContainsRegex("\n   0  blob +reader +- +- +- +- +- +11 B "));
}

TEST_F(ToolReads, VerifyReadsAllSteps) {
  const ToolResult verify = Run({"verify"});
  EXPECT_EQ(verify.code, 0);
  EXPECT_EQ(verify.err, "");
  EXPECT_THAT(verify.out, ContainsRegex("^step 100: ok, [0-9.]+ KiB in .*\n"
                                        "step 200: ok, 9\\.. MiB in .*\n"
                                        "step 300: ok, [0-9.]+ KiB in .*\n$"));
  const Json json = RunJson({"verify", "200"});
  EXPECT_EQ(json["ok"], true);
  ASSERT_EQ(json["steps"].size(), 1u);
  EXPECT_EQ(json["steps"][0]["step"], 200);
  EXPECT_EQ(json["steps"][0]["result"], "ok");
  EXPECT_EQ(json["steps"][0]["error"], Json());
}

TEST_F(ToolReads, VerifyFindsDamageAndContinues) {
  DamageLargestFile();
  const ToolResult verify = Run({"verify"});
  EXPECT_EQ(verify.code, 3);
  EXPECT_THAT(verify.out, ContainsRegex("^step 100: ok, .*\n"
                                        "step 200: damaged\n"
                                        "step 300: ok, "));
  EXPECT_THAT(verify.err, StartsWith("ckptdb: verify: "));
  EXPECT_THAT(verify.err, HasSubstr("step 200"));
  EXPECT_THAT(verify.err, HasSubstr("big"));
  EXPECT_EQ(Run({"verify", "100"}).code, 0);
}

TEST_F(ToolReads, VerifyFindsDamageAsJson) {
  DamageLargestFile();
  const ToolResult verify = Run({"verify", "200", "--json"});
  EXPECT_EQ(verify.code, 3);
  EXPECT_THAT(verify.err, HasSubstr("step 200"));
  const Json json = verify.Json();
  EXPECT_EQ(json["ok"], false);
  EXPECT_EQ(json["steps"][0]["result"], "damaged");
  EXPECT_THAT(json["steps"][0]["error"].get<std::string>(), HasSubstr("big"));
}

// The command names the file instead of silently showing older steps, whichever
// table it is. Without a data file, the rest of the store is still usable.
TEST_F(ToolReads, NamesAMissingOrTruncatedSstFile) {
  std::vector<std::filesystem::path> tables;
  for (const auto& entry :
       std::filesystem::directory_iterator(path() + "/db")) {
    if (entry.path().extension() == ".sst") tables.push_back(entry.path());
  }
  ASSERT_GE(tables.size(), 3U);
  int of_data = 0;
  int of_records = 0;
  for (const std::filesystem::path& table : tables) {
    const uintmax_t bytes = std::filesystem::file_size(table);
    for (const uintmax_t left : {uintmax_t{0}, uintmax_t{100}, bytes - 1}) {
      SCOPED_TRACE(table.string() + " has " + std::to_string(left) + " bytes");
      const std::filesystem::path kept = dir_.path() + "/kept";
      std::filesystem::copy(path(), kept,
                            std::filesystem::copy_options::recursive);
      if (left == 0) {
        std::filesystem::remove(table);
      } else {
        std::filesystem::resize_file(table, left);
      }
      const int code = Run({"ls"}).code;
      EXPECT_TRUE(code == 0 || code == 3) << code;
      ++(code == 0 ? of_data : of_records);
      for (const char* command : {"ls", "verify", "gc"}) {
        const ToolResult result = Run({command});
        EXPECT_EQ(result.code, command == std::string("verify") ? 3 : code)
            << command << ": " << result.err;
        EXPECT_THAT(result.err, HasSubstr(table.filename().string()));
      }
      std::filesystem::remove_all(path());
      std::filesystem::rename(kept, path());
    }
  }
  EXPECT_GT(of_data, 0);
  EXPECT_GT(of_records, 0);
  const ToolResult verify = Run({"verify"});
  EXPECT_EQ(verify.code, 0);
  EXPECT_EQ(verify.err, "");
}

TEST_F(ToolReads, Du) {
  const Json du = RunJson({"du"});
  ASSERT_EQ(du["steps"].size(), 3u);
  EXPECT_EQ(du["steps"][1]["step"], 200);
  EXPECT_GE(du["steps"][1]["exclusive_bytes"], kBigElements * 4);
  EXPECT_GT(du["steps"][1]["borrowed_bytes"], 0);
  EXPECT_EQ(du["steps"][0]["borrowed_bytes"], 0);
  EXPECT_THAT(du["held_versions"], IsEmpty());
  EXPECT_GE(du["disk_bytes"], kBigElements * 4);
  EXPECT_GT(du["available_bytes"], 0);
  const ToolResult text = Run({"du"});
  EXPECT_EQ(text.code, 0);
  EXPECT_THAT(text.out, ContainsRegex("\n 200 +[0-9]+ +9\\.. MiB "));
  EXPECT_THAT(text.out, ContainsRegex("\non disk +[0-9.]+ MiB\n"));
}

TEST_F(ToolReads, DuShowsKeptVersionsAndReasons) {
  Own();
  ASSERT_OK(store_->Delete(100));  // step 200 uses its tensors
  ASSERT_OK(store_->Unpin(200));
  const Json du = RunJson({"du"});
  EXPECT_EQ(du["steps"].size(), 2u);
  ASSERT_EQ(du["held_versions"].size(), 1u);
  EXPECT_EQ(du["held_versions"][0]["step"], 100);
  EXPECT_EQ(du["held_versions"][0]["reason"], "referenced");
  EXPECT_THAT(Run({"du"}).out,
              ContainsRegex("\n +100 .* referenced  tensors of step 200\n"));
}

TEST_F(ToolReads, ReadsALiveStore) {
  Own();
  EXPECT_EQ(Steps(), (std::vector<int64_t>{100, 200, 300}));
  ASSERT_OK(store_->Delete(300));
  EXPECT_THAT(Steps(), ElementsAre(100, 200));
  ASSERT_OK(SaveStep300(store_.get()));
  EXPECT_THAT(Steps(), ElementsAre(100, 200, 300));
  EXPECT_EQ(Run({"show", "300"}).code, 0);
  EXPECT_EQ(Run({"items", "300"}).code, 0);
  EXPECT_EQ(Run({"verify"}).code, 0);
  EXPECT_EQ(Run({"du"}).code, 0);
}

TEST_F(ToolReads, RejectsAFileAsStore) {
  const std::string file = dir_.path() + "/file";
  std::ofstream(file) << "a file";
  const ToolResult result = RunTool({"ls", "--store", file});
  EXPECT_EQ(result.code, 5);
  EXPECT_THAT(result.err, AllOf(HasSubstr(file), HasSubstr("directory")));
}

TEST_F(ToolReads, NamesAMissingStep) {
  for (const char* command : {"show", "items", "verify"}) {
    const ToolResult result = Run({command, "150"});
    EXPECT_EQ(result.code, 2) << command;
    EXPECT_EQ(result.out, "");
    EXPECT_THAT(result.err,
                AllOf(StartsWith(std::string("ckptdb: ") + command + ": "),
                      HasSubstr("150")));
  }
}

}  // namespace
}  // namespace ckptdb::testing
