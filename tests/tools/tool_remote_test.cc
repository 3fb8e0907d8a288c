// SPDX-License-Identifier: Apache-2.0
// ckptdb remote, with a folder as the object store.
#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <regex>
#include <set>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_replace.h"
#include "tests/tools/tool_fixture.h"
#include "tools/open_store.h"

namespace ckptdb::testing {
namespace {

namespace fs = std::filesystem;

class ToolRemote : public ToolFixture {
 protected:
  std::string url() const { return "file://" + dir_.path() + "/remote"; }
  std::string fetched() const { return dir_.path() + "/fetched"; }
  // Returns the largest data object.
  fs::path LargestObject() const {
    fs::path largest;
    uintmax_t bytes = 0;
    for (const auto& entry :
         fs::recursive_directory_iterator(dir_.path() + "/remote/data")) {
      if (!entry.is_regular_file() || entry.file_size() <= bytes) continue;
      largest = entry.path();
      bytes = entry.file_size();
    }
    return largest;
  }
};

TEST_F(ToolRemote, ShipsListsAndFetches) {
  Own();  // a trainer has the store open
  ExpectPrints("remote push " + url(),
               AllOf(HasSubstr("shipped 3 steps"), HasSubstr("9.")));
  ExpectPrints("remote push " + url(), HasSubstr("shipped 0 steps"));
  ExpectPrints("remote ls " + url(),
               ContainsAll("100 +full", "200 +full.*pinned",
                           "300 +full.*ephemeral", "3 steps"));
  ExpectPrints("remote fetch " + url() + " " + fetched() + " --all",
               HasSubstr("fetched 3 steps"));
  Disown();
  EXPECT_EQ(RunLine("ls --json -s " + fetched()).Json()["steps"],
            RunJson("ls")["steps"]);
  EXPECT_EQ(RunLine("verify -s " + fetched()).code, 0);
  EXPECT_EQ(RunLine("diff 200 " + path() + ":200 --full -s " + fetched()).code,
            0);
}

TEST_F(ToolRemote, FetchesTheNewestStepOrTheOneThatIsNamed) {
  RunJson("remote push " + url());
  EXPECT_THAT(RunJson("remote fetch " + url() + " " + fetched()),
              Includes(R"({"fetched": [300]})"));
  const std::string second = fetched() + "-2";
  EXPECT_EQ(RunLine("remote fetch " + url() + " --step 100 --json -s " + second)
                .Json()["fetched"],
            Json({100}));
  ExpectFails("remote fetch " + url() + " " + second, 5, HasSubstr("exists"));
  ExpectFails("remote fetch " + url() + " " + second + "3 --step 7", 2,
              HasSubstr("no step 7"));
}

// A sweep of the outer store would delete such a folder.
TEST_F(ToolRemote, DoesNotFetchIntoAStore) {
  RunJson("remote push " + url());
  const std::string inside = path() + "/staging/7";
  for (const std::string options : {"", " --update"}) {
    ExpectFails("remote fetch " + url() + " " + inside + options, 1,
                AllOf(HasSubstr(path()), HasSubstr("lies inside it")));
  }
  EXPECT_FALSE(fs::exists(inside));
}

TEST_F(ToolRemote, MarksStepsOfAnAbandonedRun) {
  const std::string ls = "remote ls " + url();
  const auto save = [&](int64_t step, int64_t parent) {
    Own();
    RankState state;
    state.AddBlob("b", "bytes");
    SaveSpec spec = {.step = step};
    if (parent >= 0) {
      const auto record = store_->FindStep(parent);
      ASSERT_OK(record.status());
      spec.parent = record->version;
      spec.abandoned = SaveSpec::Abandoned::kKeep;
    }
    ASSERT_OK(store_->Save(spec, state));
    Disown();
    RunJson("remote push " + url());
  };
  save(400, -1);
  save(500, 400);
  save(600, 500);
  ExpectPrints(ls, Not(HasSubstr("abandoned")));
  save(450, 400);
  std::set<int64_t> abandoned;
  const Json listed = RunJson(ls);
  for (const Json& step : listed["steps"]) {
    if (step["abandoned"]) abandoned.insert(step["step"].get<int64_t>());
  }
  EXPECT_EQ(abandoned, (std::set<int64_t>{500, 600}));
  ExpectPrints(ls, ContainsAll("500 .* abandoned\n", "600 .* abandoned\n"));
}

TEST_F(ToolRemote, AddsStepsToAStore) {
  RunJson("remote push " + url());
  const std::string fetch = "remote fetch " + url() + " " + fetched();
  ExpectPrints(fetch + " --step 100 --update", HasSubstr("fetched step 100"));
  ExpectFails(fetch, 5, AllOf(HasSubstr(fetched()), HasSubstr("--update")));
  const Json update = RunJson(fetch + " --update");
  EXPECT_THAT(update, Includes(R"({"fetched": [300], "removed": []})"));
  ExpectPrints(fetch + " --update",
               AllOf(HasSubstr("fetched 0 steps"), HasSubstr("0 B")));
  ExpectPrints(
      fetch + " --update --all --keep 2",
      AllOf(HasSubstr("fetched step 200"), HasSubstr("removed step 100")));
  EXPECT_EQ(RunLine("ls --json -s " + fetched()).Json()["steps"].size(), 2);
  EXPECT_EQ(RunLine("verify -s " + fetched()).code, 0);
  EXPECT_EQ(
      RunLine("diff 300 " + path() + ":300 --full --exit-code -s " + fetched())
          .code,
      0);
}

TEST_F(ToolRemote, RefusesToAddStepsToAStoreThatDiffers) {
  RunJson("remote push " + url());
  const std::string update = "remote fetch --update " + url() + " ";
  RunJson(update + fetched());
  {
    ASSERT_OK_AND_ASSIGN(const auto store, Store::Open(fetched()));
    const std::vector<float> values = {1, 2};
    RankState state;
    state.AddTensor("w", TensorView::Of(values.data(), {2}));
    ASSERT_OK(store->Save({.step = 400}, state));
  }
  ExpectFails(update + fetched(), 5, HasSubstr("nothing was changed"));
  const std::string other = dir_.path() + "/other";
  ASSERT_OK(MakeSampleStore(other).status());
  ExpectFails(update + other, 5, HasSubstr("another folder"));
  const std::string busy = dir_.path() + "/busy";
  RunJson("remote fetch --step 100 " + url() + " " + busy);
  ASSERT_OK_AND_ASSIGN(const auto owner, Store::Open(busy));
  ExpectFails(update + busy, 4, AllOf(HasSubstr(busy), HasSubstr("pid")));
  fs::create_directories(dir_.path() + "/full/folder");
  ExpectFails(update + dir_.path() + "/full", 5, HasSubstr("exists"));
}

TEST_F(ToolRemote, FetchRefusesOptionsThatContradict) {
  RunJson("remote push " + url());
  const std::string fetch = "remote fetch " + url() + " " + fetched();
  const auto refused = [&](const std::string& options, const std::string& one,
                           const std::string& other) {
    ExpectFails(fetch + options, 1,
                AllOf(HasSubstr(one), HasSubstr(other),
                      Not(HasSubstr("FetchOptions"))));
  };
  refused(" --step 100 --all", "--step", "--all");
  refused(" --slots freq", "--slots", "--tables");
  refused(" --slices 0-5", "--slices", "--tables");
  refused(" --update --tables user", "--update", "--tables");
  refused(" --follow --items mlp.weight", "--follow", "--items");
  refused(" --follow --step 100", "--follow", "--step");
  refused(" --keep 1", "--keep", "--update");
  refused(" --update --keep 1 --step 100", "--keep", "--step");
  refused(" --interval 5", "--interval", "--follow");
  refused(" --tables nobody", "nobody", "no");
  EXPECT_FALSE(fs::exists(fetched()));
  EXPECT_FALSE(fs::exists(fetched() + ".unfinished"));
}

// A signal ends it with success.
TEST_F(ToolRemote, FetchFollowsUntilASignal) {
  RunJson("remote push " + url());
  ToolSetting setting;
  setting.kill_after = std::chrono::seconds(5);
  setting.signal = SIGTERM;
  const ToolResult followed =
      RunTool({"remote", "fetch", url(), fetched(), "--follow", "--keep", "1",
               "--interval", "0.1"},
              setting);
  EXPECT_EQ(followed.code, 0) << followed.err;
  EXPECT_THAT(followed.out, HasSubstr("fetched step 300"));
  EXPECT_EQ(followed.err, "");
  EXPECT_EQ(RunLine("verify -s " + fetched()).code, 0);
}

TEST_F(ToolRemote, CommandsReadAUrlAsTheyReadTheStore) {
  RunJson("remote push " + url());
  for (const std::string line :
       {"ls", "show 200", "items latest", "chain 300 --tables", "diff 100 200",
        "plan 300", "row user 7 --step 100", "rows user --limit 5",
        "cat mlp.weight --step 300", "nan --step 200", "digest 200",
        "history user 7", "explain 200", "watch --count 1"}) {
    SCOPED_TRACE(line);
    const ToolResult there = RunLine(line + " -s " + url());
    EXPECT_EQ(there.code, 0);
    EXPECT_EQ(there.err, "");
    // Other than the name of the store, and how long ago a step was saved.
    const std::regex age(" *[0-9]+ s\\b");
    EXPECT_EQ(std::regex_replace(
                  absl::StrReplaceAll(there.out, {{url(), path()}}), age, ""),
              std::regex_replace(Run(line).out, age, ""));
  }
  EXPECT_EQ(RunLine("export 200 big --npy " + fetched() + " -s " + url()).code,
            0);
  EXPECT_EQ(
      RunLine("diff 200 " + path() + ":200 --full --exit-code -s " + url())
          .code,
      0);
}

TEST_F(ToolRemote, FetchesParts) {
  RunJson("remote push " + url());
  const std::string fetch = "remote fetch " + url() + " " + fetched();
  ExpectFails(fetch + " --slots embedding", 1, HasSubstr("--tables"));
  ExpectFails(fetch + " --tables user --slices 5", 1, HasSubstr("A-B"));
  ExpectFails(fetch + " --tables user --slices 7-6", 1, HasSubstr("7-6"));
  ExpectFails(fetch + " --tables nobody", 1, HasSubstr("\"nobody\""));
  ExpectFails("remote ls " + url() + " --tables user", 1,
              HasSubstr("remote fetch"));
  ExpectPrints(fetch + " --step 200 --tables user --slices 0-999",
               AllOf(HasSubstr("fetched step 200"), HasSubstr("only")));
  const auto at = [&](const std::string& line, int code,
                      const std::string& err) {
    SCOPED_TRACE(line);
    const ToolResult result = RunLine(line + " -s " + fetched());
    EXPECT_EQ(result.code, code);
    EXPECT_THAT(result.err, HasSubstr(err));
  };
  const std::string parts = "only tables \"user\", slices 0-999";
  at("ls", 0, parts);
  at("row user 7", 0, parts);
  at("row user 1100", 5, "slices 1100-1100");
  at("cat mlp.weight", 5, "tensor \"mlp.weight\" was not fetched");
  at("verify", 5, "verifying it needs");
  at("digest 200", 5, "was not fetched");
  at("pin 200", 5, "can only be read");
}

TEST_F(ToolRemote, CommandsThatWriteRefuseAUrl) {
  RunJson("remote push " + url());
  for (const std::string line :
       {"rm 100", "gc", "fold 300", "pin 100", "unpin 200", "promote 300",
        "demote 100", "quarantine 100", "metrics 100 x=1", "repair",
        "repair --yes", "backup OUT", "copy URL:100 OUT", "copy STORE:100 URL",
        "remote push URL", "du"}) {
    SCOPED_TRACE(line);
    const ToolResult refused =
        RunLine(absl::StrReplaceAll(line, {{"URL", url()},
                                           {"STORE", path()},
                                           {"OUT", dir_.path() + "/out"}}) +
                " -s " + url());
    EXPECT_EQ(refused.code, 5);
    EXPECT_EQ(refused.out, "");
    EXPECT_THAT(refused.err, HasSubstr("URL"));
    EXPECT_FALSE(fs::exists(dir_.path() + "/out"));
  }
  EXPECT_FALSE(fs::exists("file:"));
  const ToolResult unknown = RunLine("ls -s s4://bucket/prefix");
  EXPECT_EQ(unknown.code, 1);
  EXPECT_THAT(unknown.err, HasSubstr("\"s4://bucket/prefix\""));
  EXPECT_EQ(RunLine("ls -s " + url() + "-2").code, 2);
}

TEST_F(ToolRemote, FindsDamage) {
  RunJson("remote push " + url());
  const fs::path object = LargestObject();
  {
    std::fstream file(object, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(1000);
    file.put('\x7f');
  }
  ExpectPrints("remote verify " + url(), HasSubstr("3 steps"));
  ExpectRun("remote verify --data " + url(), 3, HasSubstr("3 steps"),
            AllOf(HasSubstr("hash"), HasSubstr("needed by steps 200")));
  ExpectFails("remote fetch --step 200 " + url() + " " + fetched(), 3,
              HasSubstr("hash"));
  EXPECT_FALSE(fs::exists(fetched()));
  fs::remove(object);
  ExpectRun("remote verify " + url(), 3, HasSubstr("3 steps"),
            HasSubstr("it is missing"));
}

TEST_F(ToolRemote, CollectsWhatIsDropped) {
  RunJson("remote push " + url());
  ExpectPrints("remote gc " + url() + " --keep 1",
               HasSubstr("dropped 1 steps, deleted 0 objects"));
  EXPECT_THAT(RunJson("remote gc " + url() + " --grace-hours 0"),
              Includes(R"({"waiting_bytes": 0})"));
  const Json listed = RunJson("remote ls " + url());
  EXPECT_EQ(listed["steps"].size(), 2);  // step 200 is pinned
  EXPECT_EQ(listed["dropped_bytes"], 0);
  ExpectPrints("remote verify --data " + url(), HasSubstr("2 steps"));
  ExpectPrints("remote push " + url(), HasSubstr("shipped 0 steps"));
}

TEST_F(ToolRemote, KeepsTheStepsOfAPolicy) {
  RunJson("remote push " + url());
  EXPECT_THAT(RunTool({"remote", "gc", url(), "--keep-policy",
                       R"({"any": [{"latest_n": 1}, {"keep_steps": [100]}]})",
                       "--json"})
                  .Json(),
              Includes(R"({"dropped": []})"));
  EXPECT_THAT(RunTool({"remote", "gc", url(), "--keep-policy",
                       R"({"latest_n": 1})", "--json"})
                  .Json(),
              Includes(R"({"dropped": [100]})"));
  ExpectFails("remote gc " + url() + " --keep-policy latest_n", 1,
              HasSubstr("line 1"));
  ExpectFails("remote push " + url() + " --grace-hours 1", 1,
              HasSubstr("needs --follow"));
  ExpectFails("remote ls " + url() + " --keep-policy x", 1,
              HasSubstr("\"remote gc\" and \"remote push\""));
}

TEST_F(ToolRemote, LsShowsStepsThatWait) {
  EXPECT_FALSE(RunJson("ls").contains("shipping"));
  std::ofstream(path() + "/SHIPPED")
      << "url s3://models/ctr\nwritten_at_micros 5\nlast_attempt 2\n"
         "skipped 100\nerror UNAVAILABLE: no network\n";
  ExpectPrints("ls", AllOf(HasSubstr("shipped to s3://models/ctr; 2 steps "
                                     "wait, the oldest for "),
                           HasSubstr("failed: UNAVAILABLE: no network")));
  const Json shipping = RunJson("ls")["shipping"];
  EXPECT_EQ(shipping["waiting"], Json({100, 300}));
  EXPECT_GT(shipping["lag_micros"], 0);
  EXPECT_EQ(shipping["error"], "UNAVAILABLE: no network");
  EXPECT_EQ(RunJson("du")["foreign_bytes"], 0);
  // A damaged note hides no steps.
  std::ofstream(path() + "/SHIPPED") << "last_attempt x\n";
  ExpectRun("ls", 0, HasSubstr("300"), HasSubstr("SHIPPED"));
}

// Ends with success at a signal.
TEST_F(ToolRemote, FollowsUntilASignal) {
  ToolSetting setting;
  setting.kill_after = std::chrono::seconds(5);
  setting.signal = SIGTERM;
  const ToolResult followed = RunTool(
      {"remote", "push", url(), "--follow", "--store", path()}, setting);
  EXPECT_EQ(followed.code, 0) << followed.err;
  EXPECT_THAT(followed.out, HasSubstr("shipped 3 steps"));
  EXPECT_EQ(followed.err, "");
  // The note stays after the push ends.
  ExpectPrints("ls", HasSubstr("shipped to " + url() + "; no step waits"));
  const Json shipping = RunJson("ls")["shipping"];
  EXPECT_EQ(shipping["url"], url());
  EXPECT_EQ(shipping["waiting"], Json::array());
  EXPECT_TRUE(shipping["error"].is_null());
}

TEST_F(ToolRemote, TakesOverOnlyOnRequest) {
  RunJson("remote push " + url());
  RunJson("remote fetch " + url() + " --step 100 " + fetched());
  const std::string push = "remote push " + url() + " -s " + fetched();
  const ToolResult refused = RunLine(push);
  EXPECT_EQ(refused.code, 5);
  EXPECT_THAT(refused.err, AllOf(HasSubstr("ahead"), HasSubstr("--take-over")));
  EXPECT_EQ(RunLine(push + " --take-over").code, 0);
  EXPECT_EQ(RunJson("remote ls " + url())["steps"].size(), 1);
}

TEST_F(ToolRemote, RefusesBadArguments) {
  ExpectFails("remote ls nowhere", 1, HasSubstr("file:///folder"));
  ExpectFails("remote ls " + url(), 2, HasSubstr("nothing was shipped"));
  ExpectFails("remote ls " + url() + " --keep 3", 1,
              AllOf(HasSubstr("--keep"), HasSubstr("remote gc")));
  ExpectFails("remote push " + url() + " " + fetched(), 1,
              HasSubstr("remote fetch"));
  ExpectFails("remote steal " + url(), 1, HasSubstr("steal"));
  EXPECT_EQ(RunLine("remote fetch " + url()).code, 1);
  EXPECT_EQ(RunLine("remote push " + url() + " -s " + fetched()).code, 2);
}

// The library's error names an option for the reserve, which the command lacks.
TEST(ToolReserve, IsNotNamedAsAnOption) {
  const TempDir dir;
  StoreOptions options;
  options.reserve_bytes = uint64_t{1} << 62;
  ASSERT_OK_AND_ASSIGN(const auto store,
                       Store::Open(dir.path() + "/store", options));
  const absl::Status full = store->Save({.step = 1}, RankState()).status();
  const std::string text(full.message());
  EXPECT_THAT(text, HasSubstr("StoreOptions::reserve_bytes"));
  const absl::Status shown = tool::WithoutReserveOption(full);
  EXPECT_EQ(shown.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(std::string(shown.message()),
            text.substr(0, text.find(", or lower StoreOptions")));
}

}  // namespace
}  // namespace ckptdb::testing
