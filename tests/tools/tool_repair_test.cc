// SPDX-License-Identifier: Apache-2.0
// ckptdb repair, quarantine, promote, demote and explain.
#include <filesystem>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "db/reader.h"
#include "db/store.h"
#include "tests/tools/ctr_store.h"
#include "tests/tools/store_bytes.h"
#include "tests/tools/tool_fixture.h"
#include "tools/damaged_steps.h"

namespace ckptdb::testing {
namespace {

namespace fs = std::filesystem;

class ToolRepair : public ToolFixture {
 protected:
  // It changes nothing, and finds damage.
  Json FindDamage() const {
    const auto before = BytesBelow(path());
    const ToolResult result = Run("repair --json");
    EXPECT_EQ(result.code, 3) << result.err;
    EXPECT_EQ(BytesBelow(path()), before);
    return result.Json();
  }
  static std::vector<int64_t> LostSteps(const Json& findings) {
    std::vector<int64_t> lost;
    for (const auto& step : findings["steps"]) {
      if (!step["error"].is_null()) lost.push_back(step["step"]);
    }
    return lost;
  }
};

TEST_F(ToolRepair, OfAWholeStoreChangesNothing) {
  const auto before = BytesBelow(path());
  EXPECT_THAT(RunJson("repair"),
              Includes(R"({"damaged": false, "newest_whole_step": 300,
                           "repaired": false, "removed_versions": []})"));
  EXPECT_THAT(RunJson("repair --yes"),
              Includes(R"({"damaged": false, "repaired": false})"));
  EXPECT_EQ(BytesBelow(path()), before);
}

// Also if an older step has a later time, as after the clock was set back.
TEST_F(ToolRepair, NewestWholeStepIsTheOneThatWasSavedLast) {
  Own();
  RankState state;
  state.AddBlob("b", "bytes");
  ASSERT_OK(store_->Save({.step = 400, .committed_at_micros = 1000}, state));
  Disown();
  EXPECT_EQ(RunJson("show latest")["step"], 400);
  EXPECT_EQ(RunJson("repair")["newest_whole_step"], 400);
}

TEST_F(ToolRepair, RemovesDamagedStepsOnlyWithYes) {
  FlipByte(LargestTable(path()), fs::file_size(LargestTable(path())) / 2);
  const Json found = FindDamage();
  EXPECT_EQ(LostSteps(found), std::vector<int64_t>{200});
  EXPECT_EQ(found["newest_whole_step"], 300);
  // The pin protects even a damaged step.
  const ToolResult pinned = Run("repair --yes");
  EXPECT_EQ(pinned.code, 3);
  EXPECT_THAT(pinned.err, HasSubstr("unpin"));
  EXPECT_EQ(Run("unpin 200").code, 0);
  EXPECT_THAT(RunJson("repair --yes"),
              Includes(R"({"repaired": true, "removed_versions": [{"step":
                           200}]})"));
  EXPECT_EQ(Run("verify").code, 0);
  EXPECT_EQ(Steps(), (std::vector<int64_t>{100, 300}));
}

// Another process may save a step again while repair reads the others.
TEST_F(ToolRepair, RemovesOnlyTheVersionsThatItExamined) {
  ASSERT_OK_AND_ASSIGN(const auto store, Store::Open(path()));
  const absl::Status damaged = absl::DataLossError("damaged");
  std::vector<tool::ExaminedStep> examined;
  for (StepRecord& record : store->Steps()) {
    examined.push_back({std::move(record), damaged});
  }
  ASSERT_THAT(examined, SizeIs(3));
  RankState state;
  state.AddBlob("b", "saved again");
  ASSERT_OK(store->Save({.step = 100, .overwrite = true}, state));
  examined[2].status = absl::InternalError("a passing error");
  examined.push_back({StepRecord(), damaged});  // removed meanwhile
  std::vector<Version> removed;
  ASSERT_OK(tool::RemoveDamaged(examined, store.get(), &removed));
  // Step 200 is pinned.
  EXPECT_THAT(removed, IsEmpty());
  EXPECT_THAT(store->Steps(), SizeIs(3));
  examined[1].record.pinned = false;
  ASSERT_OK(store->Unpin(200));
  ASSERT_OK(tool::RemoveDamaged(examined, store.get(), &removed));
  EXPECT_THAT(removed, ElementsAre(examined[1].record.version));
}

TEST_F(ToolRepair, ListsTheFilesThatErrorsName) {
  const fs::path table = LargestTable(path());
  FlipByte(table, fs::file_size(table) / 2);
  EXPECT_EQ(FindDamage()["bad_files"], Json({table.filename().string()}));
  EXPECT_THAT(Run("repair").out,
              HasSubstr("db/" + table.filename().string() + ": damaged"));
}

// Errors recommend --yes only if it would change something.
TEST_F(ToolRepair, PromisesNothingThatYesCannotDo) {
  EXPECT_EQ(Run("unpin 200").code, 0);
  FlipByte(LargestTable(path()), fs::file_size(LargestTable(path())) / 2);
  EXPECT_THAT(Run("repair").err,
              HasSubstr(" is damaged, and 1 of its 3 steps are lost; --yes "
                        "keeps only undamaged steps\n"));
  EXPECT_EQ(Run("pin 200").code, 0);
  EXPECT_THAT(Run("repair").err, HasSubstr("lost; unpin the damaged steps "));
  const fs::path current = path() + "/db/CURRENT";
  std::ifstream named(current);
  std::string manifest;
  std::getline(named, manifest);
  fs::resize_file(path() + "/db/" + manifest, 100);
  const ToolResult closed = Run("repair");
  EXPECT_EQ(closed.code, 3);
  EXPECT_THAT(closed.err,
              HasSubstr(" cannot be opened, which repair cannot change; "
                        "restore a backup\n"));
  EXPECT_THAT(closed.err, Not(HasSubstr("steps are lost")));
  EXPECT_EQ(FindDamage()["bad_files"], Json({manifest}));
  EXPECT_EQ(Run("repair --yes").err, closed.err);
  fs::remove(current);
  EXPECT_THAT(Run("repair").err,
              HasSubstr(" cannot be opened; --yes writes db/CURRENT anew\n"));
}

TEST_F(ToolRepair, SaysThatWholeStepsAreQuarantined) {
  EXPECT_EQ(Run("quarantine 100 200 300").code, 0);
  EXPECT_THAT(Run("repair").out,
              HasSubstr("all whole steps are quarantined, so none is the "
                        "latest\n"));
}

TEST_F(ToolRepair, IsTheRemedyOfAStoreThatDoesNotOpen) {
  fs::remove(path() + "/db/CURRENT");
  std::ofstream(path() + "/db/CURRENT") << "";
  ExpectFails("ls", 3,
              HasSubstr("; \"ckptdb repair\" shows what can be saved\n"));
}

class ToolRepairEmpty : public ToolFixture {
 protected:
  void SetUp() override {
    ASSERT_OK(Store::Open(path(), {.create_if_missing = true}).status());
  }
};

TEST_F(ToolRepairEmpty, IsReported) {
  for (const char* command : {"verify", "repair", "repair --yes"}) {
    EXPECT_EQ(Run(command).out, "the store has no steps\n") << command;
  }
}

TEST_F(ToolRepair, NamesMissingAndTruncatedFiles) {
  const fs::path table = LargestTable(path());
  fs::resize_file(table, fs::file_size(table) - 100);
  EXPECT_EQ(LostSteps(FindDamage()), std::vector<int64_t>{200});
  fs::remove(table);
  const Json found = FindDamage();
  EXPECT_EQ(LostSteps(found), std::vector<int64_t>{200});
  EXPECT_THAT(found["bad_files"].dump(), HasSubstr(table.filename().string()));
  EXPECT_EQ(Run("unpin 200").code, 0);
  EXPECT_EQ(Run("repair --yes").code, 0);
  EXPECT_EQ(Run("repair").code, 0);
}

TEST_F(ToolRepair, WritesAMissingCurrentAnew) {
  for (const bool empty : {false, true}) {
    fs::remove(path() + "/db/CURRENT");
    if (empty) std::ofstream(path() + "/db/CURRENT") << "";
    const Json found = FindDamage();
    EXPECT_THAT(found["manifest"].dump(), HasSubstr("MANIFEST-"));
    const ToolResult result = Run("repair --yes");
    EXPECT_EQ(result.code, 0) << result.err;
    EXPECT_EQ(Run("verify").code, 0);
    EXPECT_EQ(Steps().size(), 3);
  }
}

TEST_F(ToolRepair, LeavesCurrentIfItsManifestCannotBeOpened) {
  for (const auto& entry : fs::directory_iterator(path() + "/db")) {
    if (entry.path().filename().string().rfind("MANIFEST-", 0) == 0) {
      fs::remove(entry.path());
    }
  }
  std::ofstream(path() + "/db/MANIFEST-000001") << "damaged";
  const auto before = BytesBelow(path());
  EXPECT_THAT(FindDamage()["manifest"].dump(), HasSubstr("MANIFEST-000001"));
  EXPECT_EQ(Run("repair --yes").code, 3);
  EXPECT_EQ(BytesBelow(path()), before);
}

TEST_F(ToolRepair, FollowsNoLinkToWriteCurrent) {
  const std::string victim = dir_.path() + "/victim";
  std::ofstream(victim) << "mine";
  fs::remove(path() + "/db/CURRENT");
  fs::create_symlink(victim, path() + "/db/CURRENT.repair");
  EXPECT_EQ(Run("repair --yes").code, 0);
  EXPECT_EQ(fs::file_size(victim), 4);
  EXPECT_EQ(Steps().size(), 3);
}

TEST_F(ToolRepair, SaysWhatItCannotRepair) {
  for (const auto& entry : fs::directory_iterator(path() + "/db")) {
    if (entry.path().filename().string().rfind("MANIFEST-", 0) == 0) {
      fs::remove(entry.path());
    }
  }
  const Json found = FindDamage();
  EXPECT_FALSE(found["open_error"].is_null());
  EXPECT_TRUE(found["manifest"].is_null());
  const auto before = BytesBelow(path());
  const ToolResult result = Run("repair --yes");
  EXPECT_EQ(result.code, 3);
  EXPECT_THAT(result.out, HasSubstr("restore a backup"));
  EXPECT_EQ(BytesBelow(path()), before);
  EXPECT_EQ(RunLine("repair -s " + dir_.path()).code, 2);
}

TEST_F(ToolRepair, NeedsExclusiveAccessToChange) {
  FlipByte(LargestTable(path()), fs::file_size(LargestTable(path())) / 2);
  Own();
  EXPECT_EQ(Run("repair").code, 3);
  EXPECT_EQ(Run("repair --yes").code, 4);
  EXPECT_EQ(Run("quarantine 100").code, 4);
  Disown();
}

// All steps need the damaged file of the base.
class ToolCtrRepair : public FixtureOf<MakeCtrStore> {};

TEST_F(ToolCtrRepair, RemovesNothingIfNoStepIsWhole) {
  const fs::path base = LargestTable(path());
  for (uint64_t at = 100'000; at < 500'000; at += 100) FlipByte(base, at);
  EXPECT_EQ(Run("unpin 1000").code, 0);
  const ToolResult result = Run("repair --yes");
  EXPECT_EQ(result.code, 3);
  EXPECT_THAT(result.err,
              HasSubstr("no step is whole and not quarantined, so nothing was "
                        "removed"));
  EXPECT_EQ(Steps().size(), 4);
  // What is left can still be taken out.
  EXPECT_EQ(Run("export 1250 mlp* --npz " + dir_.path() + "/out").code, 0);
}

class ToolLifetime : public ToolFixture {};

TEST_F(ToolLifetime, QuarantinedStepIsNotTheLatest) {
  ExpectPrints("quarantine 300", "quarantined step 300\nlatest is step 200\n");
  EXPECT_EQ(RunJson("show latest")["step"], 200);
  EXPECT_EQ(RunJson("quarantine 100 200")["latest_step"], Json());
  ExpectFails("quarantine 999", 2, HasSubstr("999"));
  ExpectPrints("quarantine --undo 200",
               "unquarantined step 200\nlatest is step 200\n");
  EXPECT_EQ(RunJson("quarantine --undo 100 300")["unquarantined_steps"],
            Json({100, 300}));
  EXPECT_EQ(RunJson("show latest")["step"], 300);
}

TEST_F(ToolRepair, KeepsTheQuarantineOfADamagedStep) {
  FlipByte(LargestTable(path()), fs::file_size(LargestTable(path())) / 2);
  EXPECT_EQ(Run("quarantine 100 200 300").code, 0);
  std::vector<int> codes;
  for (const std::string step : {"100", "200", "300"}) {
    codes.push_back(Run("quarantine --undo " + step).code);
    EXPECT_EQ(RunJson("show " + step)["quarantined"], codes.back() != 0);
  }
  EXPECT_EQ(codes, (std::vector<int>{0, 3, 0}));
}

TEST_F(ToolLifetime, PromoteAndDemoteWithAndWithoutAnOwner) {
  ExpectPrints("promote 300", "promoted step 300\n");
  EXPECT_EQ(RunJson("show 300")["ephemeral"], false);
  EXPECT_EQ(RunJson("demote 100")["demoted_steps"], Json({100}));
  EXPECT_EQ(RunJson("show 100")["ephemeral"], true);
  Own();
  EXPECT_EQ(RunJson("promote 100")["posted"], true);
  EXPECT_EQ(RunJson("show 100")["posted_ephemeral"], false);
  EXPECT_THAT(Run("ls").out, HasSubstr("permanent*"));
  ASSERT_OK(store_->TakePosts());
  EXPECT_EQ(RunJson("show 100")["ephemeral"], false);
  EXPECT_EQ(RunJson("demote 100 300")["posted"], true);
  EXPECT_THAT(Run("ls").out, HasSubstr("ephemeral*"));
  // The last post counts.
  EXPECT_EQ(Run("promote 300").code, 0);
  ASSERT_OK(store_->TakePosts());
  EXPECT_EQ(RunJson("show 100")["ephemeral"], true);
  EXPECT_EQ(RunJson("show 300")["ephemeral"], false);
  EXPECT_EQ(Run("demote 999").code, 2);
  Disown();
}

class ToolExplain : public ToolFixture {};

TEST_F(ToolExplain, SaysWhyAStepIsKept) {
  const auto before = BytesBelow(path());
  EXPECT_THAT(Run("explain 300").out,
              AllOf(HasSubstr("step 300: ephemeral, full"),
                    HasSubstr("saved because: unknown"),
                    HasSubstr("kept: it is the latest step"),
                    HasSubstr("after the next one")));
  EXPECT_THAT(Run("explain 200").out,
              AllOf(HasSubstr("kept: it is pinned"),
                    HasSubstr("removed next by: nothing: `ckptdb unpin`")));
  EXPECT_THAT(Run("explain 100").out,
              HasSubstr("removed next by: the trainer's policy"));
  EXPECT_EQ(BytesBelow(path()), before);
  ExpectFails("explain 999", 2, HasSubstr("999"));
}

TEST_F(ToolExplain, NamesTheLeasesOfReaders) {
  EXPECT_THAT(Run("explain 100").out, Not(HasSubstr("lease")));
  ASSERT_OK_AND_ASSIGN(const auto reader, Reader::Open(path()));
  ASSERT_OK_AND_ASSIGN(const auto first, reader->OpenStep(100));
  ASSERT_OK_AND_ASSIGN(auto second, reader->OpenStep(100));
  EXPECT_THAT(Run("explain 100").out,
              ContainsAll("its data stays even then for 2 readers, whose last "
                          "lease ends at [-0-9]+ [:0-9]+ unless it is "
                          "renewed\n"));
  second.reset();
  const Json leases = RunJson("explain 100")["leases"];
  ASSERT_EQ(leases.size(), 1);
  EXPECT_GT(leases[0]["expires_at_micros"], int64_t{1} << 50);
  EXPECT_THAT(RunJson("explain 300")["leases"], IsEmpty());
}

TEST_F(ToolExplain, ForecastsByTheRetentionOfTheLastSave) {
  Own();
  const auto save = [&](int64_t step, const std::string& retention) {
    SaveSpec spec = {.step = step};
    spec.user_metadata["ckptdb.retention"] = retention;
    return store_->Save(spec, RankState()).status();
  };
  ASSERT_OK(save(400, R"({"keep": {"latest_n": 1}})"));
  ASSERT_OK(save(500, R"({"keep": {"latest_n": 3}, "keep_ephemeral": 1})"));
  Disown();
  EXPECT_THAT(
      Run("explain 400").out,
      AllOf(
          HasSubstr("kept: among the latest 3, at the save of step 500\n"),
          HasSubstr("removed next by: the save of step 700, the 2nd from now, "
                    "if they continue as before: not among the latest 3\n"),
          HasSubstr("retention: {\"keep\": {\"latest_n\": 3}")));
  // Pins, and the step of the last save itself.
  EXPECT_THAT(Run("explain 200").out, HasSubstr("nothing: `ckptdb unpin`"));
  const Json latest = RunJson("explain 500");
  EXPECT_EQ(latest["kept_reasons"],
            Json({"it is the latest step, which retention always keeps"}));
  EXPECT_EQ(latest["removed_by"],
            "the save of step 800, the 3rd from now, if they continue as "
            "before: not among the latest 3");
  EXPECT_THAT(Run("explain 300").out,
              HasSubstr("ephemeral, among the newest 1, at the save"));
  Own();
  ASSERT_OK(save(600, R"({"keep": {"keep_every_n_steps": 100}})"));
  Disown();
  EXPECT_THAT(Run("explain 400").out,
              HasSubstr("removed next by: none of the next 256 saves"));
  Own();
  ASSERT_OK(save(700, R"({"keep": {"keep_if": "mine"}})"));
  Disown();
  EXPECT_EQ(RunJson("explain 400")["retention"], Json());
  EXPECT_THAT(Run("explain 400").out,
              HasSubstr("removed next by: the trainer's policy"));
}

class ToolDeltaExplain : public DeltaFixture {};

TEST_F(ToolDeltaExplain, NamesTheStepsThatNeedItsData) {
  EXPECT_THAT(Run("explain 200").out,
              AllOf(HasSubstr("delta, saved on top of step 100"),
                    HasSubstr("its data stays even then for runs of steps "
                              "300, 400")));
}

}  // namespace
}  // namespace ckptdb::testing
