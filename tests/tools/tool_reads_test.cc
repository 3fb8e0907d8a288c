// SPDX-License-Identifier: Apache-2.0
// ls, show, items, verify, du: they print what was saved.
#include <cstdint>
#include <string>
#include <vector>

#include "db/state.h"
#include "tests/tools/tool_fixture.h"

namespace ckptdb::testing {
namespace {

class ToolReads : public ToolFixture {
 protected:
  // Items by name, of the only rank that has them.
  Json Items(const std::string& step) const {
    Json items = Json::object();
    const Json document = RunJson("items " + step);
    for (const Json& item : document["items"]) {
      const auto [place, is_new] =
          items.emplace(item["name"].get<std::string>(), item);
      EXPECT_TRUE(is_new) << item;
    }
    return items;
  }
};

TEST_F(ToolReads, LsAsJson) {
  const Json ls = RunJson("ls");
  EXPECT_EQ(ls["store"], path());
  EXPECT_EQ(ls["uuid"].get<std::string>().size(), 36u);
  EXPECT_EQ(ls["store_metadata"], (Json{{"run", "sample\n1"}}));
  EXPECT_THAT(ls["steps"], Includes(R"([
      {"step": 100, "kind": "full", "pinned": false, "ephemeral": false,
       "quarantined": false, "world_size": 1, "rows": 1000, "items": 4},
      {"step": 200, "pinned": true},
      {"step": 300, "ephemeral": true, "world_size": 2, "rows": 1500}])"));
  EXPECT_TRUE(ls["steps"][0]["attempt"].is_number_unsigned());
  EXPECT_GE(ls["steps"][1]["exclusive_bytes"], kBigElements * 4);
}

TEST_F(ToolReads, LsAsTable) {
  ExpectPrints("ls",
               ContainsAll("^STEP +KIND +CHAIN +FLAGS +RANKS +ROWS +ERASED",
                           "\n 100  full +1  - +1  1,000 ",
                           "\n 200  full +1  pinned +1  1,200 +0 +9\\.. MiB",
                           "\n 300  full +1  ephemeral +2  1,500 "));
}

TEST_F(ToolReads, ShowAsJson) {
  const Json show = RunJson("show 100");
  EXPECT_EQ(show["store"], path());
  EXPECT_THAT(show, Includes(R"({
      "step": 100, "world_size": 1, "parent": null, "chain": [{"step": 100}],
      "user_metadata": {"note": "first\nrun"},
      "kinds": {"tensor": {"items": 2, "raw_bytes": 56},
                "table": {"rows": 1000}, "blob": {"raw_bytes": 11}},
      "totals": {"items": 4}, "ranks": [{}]})"));
  EXPECT_EQ(show["chain"][0]["attempt"], show["attempt"]);
  EXPECT_EQ(show["metrics"], (Json{{"auc", 0.75}, {"loss", "nan"}}));
  EXPECT_EQ(show["user_metadata"]["raw"], "\xef\xbf\xbd\x01");
  EXPECT_EQ(show["store_metadata"], (Json{{"run", "sample\n1"}}));
  EXPECT_EQ(show["ranks"][0]["digest"].get<std::string>().size(), 16u);
}

TEST_F(ToolReads, ShowPrintsTheSlicesOfRanks) {
  EXPECT_THAT(RunJson("show 300"), Includes(R"({
      "slice_bounds": [0, 32768, 65536],
      "ranks": [{"totals": {"rows": 750}}, {"totals": {"rows": 750}}]})"));
  EXPECT_THAT(
      Run("show 300").out,
      ContainsAll("  1  \\[32768, 65536\\) +2  +750 ", "\nflags +ephemeral\n"));
}

TEST_F(ToolReads, ShowAsText) {
  ExpectPrints(
      "show 100",
      ContainsAll("^step +100\n", "\ncommitted +20[0-9-]+ [0-9:]+ UTC, ",
                  "\n  auc +0\\.75\n", "\n  note +first\\\\nrun\n",
                  "\n  raw +\\\\xff\\\\x01\n",
                  "\nmetadata of the store\n  run +sample\\\\n1\n",
                  "\n  table +1  1,000 "));
}

TEST_F(ToolReads, LatestIsTheHighestStep) {
  EXPECT_EQ(RunJson("show latest")["step"], 300);
  EXPECT_EQ(RunJson("items latest")["step"], 300);
}

TEST_F(ToolReads, ItemsOfOneRank) {
  const Json items = Items("100");
  EXPECT_EQ(items.size(), 4u);
  EXPECT_THAT(items, Includes(R"({
      "mlp.weight": {"rank": 0, "kind": "tensor", "dtype": "f32",
                     "shape": [3, 4], "raw_bytes": 48, "placement": "inline",
                     "data_version": {"step": 100}, "borrowed": false},
      "step": {"rank": 0, "dtype": "i64", "shape": []},
      "user": {"rank": 0, "kind": "table", "rows": 1000, "run": "base",
               "slots": [{"name": "embedding", "elements": 16, "row_bytes": 64},
                         {"codec": "lz4"}]},
      "reader": {"rank": 0, "kind": "blob", "raw_bytes": 11}})"));
}

TEST_F(ToolReads, ItemsOfShards) {
  EXPECT_THAT(RunJson("items 300 mlp.*")["items"], Includes(R"([
      {"rank": 0}, {"rank": 1, "name": "mlp.weight", "shape": [3, 4],
                    "global_shape": [6, 4], "offset": [3, 0]}])"));
  EXPECT_THAT(Run("items 300 mlp.* --rank 1").out,
              HasSubstr("f32[3, 4] at [3, 0] of [6, 4]"));
}

TEST_F(ToolReads, ItemsNameTheVersionOfTheirData) {
  EXPECT_THAT(RunJson("items 200 mlp.weight")["items"], Includes(R"([
      {"borrowed": true, "data_version": {"step": 100}}])"));
  const Json show = RunJson("show 200");
  EXPECT_EQ(show["references"][0]["step"], 100);
  EXPECT_GE(show["kinds"]["tensor"]["borrowed_bytes"], 48);
}

TEST_F(ToolReads, ItemsAreFiltered) {
  ExpectRun("items 100 nothing*", 2, ::testing::_,
            "ckptdb: items: step 100 has no item that matches \"nothing*\"\n");
  EXPECT_EQ(RunJson("items 300 --rank 0")["items"].size(), 2u);
  ExpectRun("items 300 --rank 2", 2, ::testing::_,
            "ckptdb: items: step 300 has no rank 2: its world size is 2\n");
}

TEST_F(ToolReads, ItemsAsTable) {
  EXPECT_THAT(Run("items 100").out,
              ContainsAll("\n   0  table +user +embedding:f32x16 freq:u32 "
                          "+undeclared +base +1,000 +- ",
                          "\n   0  blob +reader +- +- +- +- +- +11 B "));
}

TEST_F(ToolReads, VerifyReadsAllSteps) {
  ExpectPrints("verify", ContainsRegex("^step 100: ok, [0-9.]+ KiB in .*\n"
                                       "step 200: ok, 9\\.. MiB in .*\n"
                                       "step 300: ok, [0-9.]+ KiB in .*\n$"));
  EXPECT_THAT(RunJson("verify 200"), Includes(R"({
      "ok": true, "steps": [{"step": 200, "result": "ok", "error": null}]})"));
}

TEST_F(ToolReads, VerifyFindsDamageAndContinues) {
  DamageLargestFile();
  ExpectRun("verify", 3,
            ContainsRegex("^step 100: ok, .*\n"
                          "step 200: damaged\n"
                          "step 300: ok, "),
            AllOf(StartsWith("ckptdb: verify: "), HasSubstr("step 200"),
                  HasSubstr("big")));
  EXPECT_EQ(Run("verify 100").code, 0);
  const ToolResult verify = Run("verify 200 --json");
  EXPECT_EQ(verify.code, 3);
  EXPECT_THAT(verify.err, HasSubstr("step 200"));
  EXPECT_THAT(verify.Json(), Includes(R"({
      "ok": false, "steps": [{"result": "damaged"}]})"));
  EXPECT_THAT(verify.Json()["steps"][0]["error"].get<std::string>(),
              HasSubstr("big"));
}

// The command names the file instead of silently showing older steps, whichever
// table it is. Without a data file, the rest of the store is still usable.
TEST_F(ToolReads, NamesAMissingOrTruncatedSstFile) {
  namespace fs = std::filesystem;
  std::vector<fs::path> tables;
  for (const auto& entry : fs::directory_iterator(path() + "/db")) {
    if (entry.path().extension() == ".sst") tables.push_back(entry.path());
  }
  ASSERT_GE(tables.size(), 3U);
  int of_data = 0;
  int of_records = 0;
  for (const fs::path& table : tables) {
    const uintmax_t bytes = fs::file_size(table);
    for (const uintmax_t left : {uintmax_t{0}, uintmax_t{100}, bytes - 1}) {
      SCOPED_TRACE(table.string() + " has " + std::to_string(left) + " bytes");
      const fs::path kept = dir_.path() + "/kept";
      fs::copy(path(), kept, fs::copy_options::recursive);
      if (left == 0) {
        fs::remove(table);
      } else {
        fs::resize_file(table, left);
      }
      const int code = Run("ls").code;
      EXPECT_TRUE(code == 0 || code == 3) << code;
      ++(code == 0 ? of_data : of_records);
      for (const char* command : {"ls", "verify", "gc"}) {
        ExpectRun(command, command == std::string("verify") ? 3 : code,
                  ::testing::_, HasSubstr(table.filename().string()));
      }
      fs::remove_all(path());
      fs::rename(kept, path());
    }
  }
  EXPECT_GT(of_data, 0);
  EXPECT_GT(of_records, 0);
  ExpectPrints("verify", ::testing::_);
}

TEST_F(ToolReads, Du) {
  const Json du = RunJson("du");
  EXPECT_THAT(du, Includes(R"({
      "steps": [{"borrowed_bytes": 0}, {"step": 200}, {}],
      "held_versions": []})"));
  EXPECT_GE(du["steps"][1]["exclusive_bytes"], kBigElements * 4);
  EXPECT_GT(du["steps"][1]["borrowed_bytes"], 0);
  EXPECT_GE(du["disk_bytes"], kBigElements * 4);
  EXPECT_GT(du["available_bytes"], 0);
  EXPECT_THAT(Run("du").out, ContainsAll("\n 200 +[0-9]+ +9\\.. MiB ",
                                         "\non disk +[0-9.]+ MiB\n"));
}

TEST_F(ToolReads, DuShowsKeptVersionsAndReasons) {
  Own();
  ASSERT_OK(store_->Delete(100));  // step 200 uses its tensors
  ASSERT_OK(store_->Unpin(200));
  EXPECT_THAT(RunJson("du"), Includes(R"({
      "steps": [{}, {}],
      "held_versions": [{"step": 100, "reason": "referenced"}]})"));
  EXPECT_THAT(Run("du").out,
              ContainsRegex("\n +100 .* referenced  tensors of step 200\n"));
}

TEST_F(ToolReads, ReadsALiveStore) {
  Own();
  EXPECT_THAT(Steps(), ElementsAre(100, 200, 300));
  ASSERT_OK(store_->Delete(300));
  EXPECT_THAT(Steps(), ElementsAre(100, 200));
  ASSERT_OK(SaveStep300(store_.get()));
  EXPECT_THAT(Steps(), ElementsAre(100, 200, 300));
  for (const char* command : {"show 300", "items 300", "verify", "du"}) {
    EXPECT_EQ(Run(command).code, 0) << command;
  }
}

TEST_F(ToolReads, RejectsAFileAsStore) {
  const std::string file = dir_.path() + "/file";
  std::ofstream(file) << "a file";
  const ToolResult result = RunTool({"ls", "--store", file});
  EXPECT_EQ(result.code, 5);
  EXPECT_THAT(result.err, AllOf(HasSubstr(file), HasSubstr("directory")));
}

TEST_F(ToolReads, NamesAMissingStep) {
  for (const char* command : {"show 150", "items 150", "verify 150"}) {
    ExpectFails(command, 2, HasSubstr("150"));
  }
}

// How tables are divided among ranks.
class ToolSharding : public ToolFixture {
 protected:
  // Rank r of step 400 saves ids[r].
  void Save(const std::vector<std::vector<int64_t>>& ids,
            const TableSharding& sharding) {
    Own();
    ASSERT_OK_AND_ASSIGN(
        const Store::Attempt save,
        store_->Begin(
            {.step = 400, .world_size = static_cast<uint32_t>(ids.size())}));
    std::vector<StagedRank> staged;
    for (size_t rank = 0; rank < ids.size(); ++rank) {
      const std::vector<char> bytes(ids[rank].size());
      const RowSource::Arrays rows(ids[rank], {{bytes.data(), 1}});
      RankState state;
      state.AddTable("t", {{"v", DType::kU8, 1}}, &rows, SliceHash::kMix,
                     sharding);
      ASSERT_OK_AND_ASSIGN(staged.emplace_back(),
                           Stage(store_->path(), save.tickets[rank], state));
    }
    ASSERT_OK(store_->Publish(save.version, staged).status());
  }
};

TEST_F(ToolSharding, ShowAndItemsPrintTheSharding) {
  Save({{1, 3}, {2}},
       TableSharding::ByFunction("hash_v2", [](int64_t id, uint32_t) {
         return static_cast<uint32_t>(id % 2 == 0);
       }));
  EXPECT_THAT(RunJson("show 400")["tables"], Includes(R"([
      {"name": "t", "sharding": "custom", "sharding_name": "hash_v2"}])"));
  EXPECT_THAT(Run("show 400").out,
              ContainsRegex("\ntables\n  TABLE +SHARDING +SLICE HASH\n"
                            "  t +custom \"hash_v2\" +mix\n"));
  EXPECT_THAT(RunJson("items 400")["items"], Includes(R"([
      {"sharding": "custom", "sharding_name": "hash_v2"},
      {"sharding": "custom", "sharding_name": "hash_v2"}])"));
  EXPECT_THAT(Run("items 400").out, HasSubstr("custom \"hash_v2\""));
  EXPECT_EQ(RunJson("show 300")["tables"][0]["sharding"], "slices");
  EXPECT_EQ(RunJson("show 100")["tables"][0]["sharding"], "undeclared");
}

TEST_F(ToolSharding, ItemsPrintTheRangeOfEachRank) {
  Save({{1, 2}, {3}}, TableSharding::ByRange({1, 3, 9}));
  EXPECT_THAT(RunJson("show 400")["tables"], Includes(R"([
      {"name": "t", "sharding": "range", "sharding_name": null}])"));
  EXPECT_THAT(Run("items 400").out,
              AllOf(HasSubstr("range [1, 3)"), HasSubstr("range [3, 9)")));
}

TEST_F(ToolSharding, VerifyNamesAnIdOnTwoRanks) {
  Save({{1, 3}, {2, 3}}, TableSharding::Unchecked());
  ExpectRun("verify 400", 3, ::testing::_,
            HasSubstr("table \"t\": id 3 is on ranks 0 and 1"));
  EXPECT_EQ(RunJson("verify 300")["steps"][0]["result"], "ok");
}

}  // namespace
}  // namespace ckptdb::testing
