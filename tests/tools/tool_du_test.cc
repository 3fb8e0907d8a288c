// SPDX-License-Identifier: Apache-2.0
// du: bytes by table over all steps, and all others in the folder; also names
// with invisible characters.
#include <sys/mount.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "tests/tools/tool_fixture.h"

namespace ckptdb::testing {
namespace {

class ToolTablesUsage : public DeltaFixture {
 protected:
  // Returns the bytes that the steps store themselves, by kind and by table,
  // from the records of their items.
  std::map<std::string, uint64_t> StoredByItems() const {
    std::map<std::string, uint64_t> bytes;
    for (const int64_t step : Steps()) {
      const Json items = RunJson("items " + std::to_string(step));
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
  const Json du = RunJson("du --tables");
  const auto stored = StoredByItems();
  uint64_t sum = du["tensors"]["exclusive_bytes"].get<uint64_t>() +
                 du["blobs"]["exclusive_bytes"].get<uint64_t>();
  // Later steps use the tensor of step 100.
  EXPECT_THAT(du, Includes(R"({
      "tensors": {"step_count": 1}, "tables": [
        {"name": "item"},
        {"name": "types", "step_count": 1, "delta_bytes": 0},
        {"name": "user", "step_count": 4}]})"));
  for (const Json& table : du["tables"]) {
    sum += table["exclusive_bytes"].get<uint64_t>();
    EXPECT_EQ(table["exclusive_bytes"],
              stored.at(table["name"].get<std::string>()));
    EXPECT_EQ(table["referenced_bytes"], 0);
  }
  EXPECT_EQ(sum, du["exclusive_bytes"]);
  EXPECT_EQ(du["tensors"]["exclusive_bytes"], stored.at("tensor"));
  EXPECT_EQ(du["blobs"]["exclusive_bytes"], stored.at("blob"));
  EXPECT_GT(du["tables"][2]["delta_bytes"], 0);
  EXPECT_LT(du["tables"][2]["delta_bytes"], du["tables"][2]["exclusive_bytes"]);
}

TEST_F(ToolTablesUsage, ShowsKeptBytes) {
  const Json before = RunJson("du --tables");
  const Json base = RunJson("items 100 user")["items"][0];
  const Json weights = RunJson("items 100 w")["items"][0];
  ASSERT_EQ(Run("rm 100").code, 0);
  const Json du = RunJson("du --tables");
  const Json& user = du["tables"][1];
  EXPECT_THAT(user, Includes(R"({"name": "user", "step_count": 3})"));
  EXPECT_EQ(user["referenced_bytes"], base["stored_bytes"]);
  EXPECT_EQ(user["exclusive_bytes"], user["delta_bytes"]);
  EXPECT_EQ(user["exclusive_bytes"].get<uint64_t>() +
                user["referenced_bytes"].get<uint64_t>(),
            before["tables"][2]["exclusive_bytes"].get<uint64_t>());
  // Three steps use them, but they count once.
  EXPECT_EQ(du["tensors"]["referenced_bytes"], weights["stored_bytes"]);
  EXPECT_THAT(du["tensors"],
              Includes(R"({"exclusive_bytes": 0, "step_count": 0})"));
}

TEST_F(ToolTablesUsage, AsText) {
  ExpectPrints("du --tables",
               ContainsAll("^STEP +ATTEMPT +OWN +BORROWED\n",
                           "\nWHAT +NAME +STEPS +OWN +OF DELTAS +KEPT FOR",
                           "\ntensors +- +1 +[0-9]+ B +- +0 B\n",
                           "\ntable +user +4 +[0-9.]+ [KB].* +0 B\n",
                           "\nblobs +- +1 +[0-9]+ B +- +0 B\n", "\non disk +"));
}

TEST_F(ToolTablesUsage, IsPrintedOnRequest) {
  EXPECT_FALSE(RunJson("du").contains("tables"));
  EXPECT_THAT(Run("du").out, Not(HasSubstr("tensors  ")));
}

TEST_F(ToolTablesUsage, ReadsALiveStore) {
  Own();
  EXPECT_EQ(RunJson("du -t")["tables"].size(), 3u);
  ASSERT_OK(store_->Delete(400));
  EXPECT_EQ(RunJson("du -t")["tables"][2]["step_count"], 3);
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

// Files in the folder that do not belong to the store.
namespace fs = std::filesystem;

class ToolUnswept : public ToolFixture {
 protected:
  void Put(const std::string& name, size_t bytes) const {
    fs::create_directories(fs::path(path() + "/" + name).parent_path());
    std::ofstream(path() + "/" + name) << std::string(bytes, 'x');
  }
};

TEST_F(ToolUnswept, DuAccountsForEachByte) {
  Put("staging/mine/file", 1000);
  Put("README", 234);
  const Json du = RunJson("du");
  uint64_t bytes = 0;
  for (const auto& entry : fs::recursive_directory_iterator(path())) {
    if (entry.is_regular_file()) bytes += entry.file_size();
  }
  EXPECT_EQ(du["disk_bytes"], bytes);
  EXPECT_EQ(du["foreign_bytes"], 1234);
  uint64_t sum = 0;
  for (const char* part : {"exclusive", "held", "overhead", "staging",
                           "control", "spare", "foreign"}) {
    sum += du[std::string(part) + "_bytes"].get<uint64_t>();
  }
  EXPECT_EQ(sum, bytes);
  EXPECT_EQ(du["unswept"].size(), 2u);
  ExpectRun(
      "du", 0,
      ContainsAll(
          "\nRocksDB overhead +[0-9.]+ [KM]iB\n",
          "\nnot the store's +1.2 KiB\n", "\navailable +[0-9.]+ [GTP]iB\n",
          "\nnot the store's: README: ", "\nnot the store's: staging/mine: "),
      ::testing::_);
}

TEST_F(ToolUnswept, GcNamesForeignFiles) {
  Put("leases/notes.txt", 10);
  ExpectRun("gc", 0, HasSubstr("not the store's: leases/notes.txt: "),
            ::testing::_);
  EXPECT_THAT(RunJson("gc")["unswept"], Includes(R"([
      {"path": "leases/notes.txt", "foreign": true}])"));
  EXPECT_TRUE(fs::exists(path() + "/leases/notes.txt"));
}

TEST_F(ToolUnswept, GcFailsIfAnEntryCannotBeRemoved) {
  const std::string at = path() + "/staging/1";
  fs::create_directories(at);
  if (mount(dir_.path().c_str(), at.c_str(), nullptr, MS_BIND, nullptr) != 0) {
    GTEST_SKIP() << "no mounts here: " << std::strerror(errno);
  }
  const ToolResult gc = Run("gc");
  const ToolResult du = Run("du");
  ASSERT_EQ(umount(at.c_str()), 0);
  EXPECT_EQ(gc.code, 5);
  EXPECT_THAT(gc.out, AllOf(HasSubstr("freed "),
                            HasSubstr("not removed: staging/1: ")));
  EXPECT_THAT(gc.err, HasSubstr("1 of its entries could not be removed"));
  EXPECT_THAT(du.out, HasSubstr("not removed: staging/1: "));
  EXPECT_EQ(Run("gc").code, 0);
}

TEST_F(ToolUnswept, FifoAmongLeasesDoesNotBlock) {
  ASSERT_EQ(mkfifo((path() + "/leases/fifo").c_str(), 0644), 0);
  for (const char* command : {"ls", "du", "gc"}) {
    EXPECT_EQ(Run(command).code, 0) << command;
  }
}

// Unescaped, these names look like other names.
TEST_F(ToolUnswept, InvisibleNamesAreEscaped) {
  constexpr char kUnseen[] = "\xe2\x80\x8b";
  constexpr char kMark[] = "\xef\xbb\xbf";
  const float value = 1;
  RankState state;
  state.AddTensor(std::string("w") + kUnseen, TensorView::Of(&value, {1}));
  state.AddTensor(std::string(kMark) + "w", TensorView::Of(&value, {1}));
  Own();
  ASSERT_OK(store_->Save({.step = 900}, state));
  Disown();
  for (const bool json : {false, true}) {
    const ToolResult items = json ? Run("items 900 --json") : Run("items 900");
    EXPECT_EQ(items.code, 0);
    EXPECT_THAT(items.out,
                AllOf(Not(HasSubstr(kUnseen)), Not(HasSubstr(kMark)),
                      HasSubstr(json ? "w\\u200b" : "w\\xe2\\x80\\x8b"),
                      HasSubstr(json ? "\\ufeffw" : "\\xef\\xbb\\xbfw")));
    if (json) {
      EXPECT_THAT(items.Json().dump(), HasSubstr(kUnseen));
    }
  }
  const ToolResult usage = RunTool({std::string("--no") + kUnseen, "ls"});
  EXPECT_EQ(usage.code, 1);
  EXPECT_THAT(usage.err, Not(HasSubstr(kUnseen)));
}

TEST_F(ToolUnswept, RejectsATooLongStoreName) {
  EXPECT_EQ(RunTool({"ls", "-s", std::string(256, 'x')}).code, 1);
}

TEST_F(ToolTablesUsage, ByStep) {
  const Json du = RunJson("du --tables --steps");
  std::map<std::string, uint64_t> by_table;
  std::map<int64_t, uint64_t> by_step;
  for (const Json& name : du["steps_by_name"]) {
    const auto bytes = name["exclusive_bytes"].get<uint64_t>();
    by_step[name["step"].get<int64_t>()] += bytes;
    if (name["kind"] != "table") continue;
    by_table[name["name"].get<std::string>()] += bytes;
  }
  for (const Json& table : du["tables"]) {
    EXPECT_EQ(by_table.at(table["name"].get<std::string>()),
              table["exclusive_bytes"]);
  }
  for (const Json& step : du["steps"]) {
    EXPECT_EQ(by_step.at(step["step"].get<int64_t>()), step["exclusive_bytes"]);
  }
  EXPECT_THAT(Run("du --steps").out,
              ContainsAll("\nSTEP  WHAT +NAME +ROWS  ERASED +OWN  BORROWED\n",
                          "\n 200  tensors  - +- +- +0 B +44 B\n",
                          "\n 200  table +user +2 +1 "));
}

TEST_F(ToolTablesUsage, ItemsSortedBySize) {
  const auto names = [&](const std::string& sort) {
    std::vector<std::string> sorted;
    const Json items = RunJson("items 100 --sort " + sort);
    for (const Json& item : items["items"]) {
      sorted.push_back(item["name"].get<std::string>());
    }
    return sorted;
  };
  EXPECT_THAT(names("bytes"),
              ElementsAre("user", "types", "item", "w", "reader"));
  EXPECT_THAT(names("rows"),
              ElementsAre("user", "item", "types", "reader", "w"));
  EXPECT_EQ(names("stored").front(), "types");
  ExpectFails("items 100 --sort name", 1, HasSubstr("--sort"));
}

}  // namespace
}  // namespace ckptdb::testing
