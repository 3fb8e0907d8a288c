// SPDX-License-Identifier: Apache-2.0
// rm, gc, pin, unpin, fold: their effect on a store, and on one that is in use.
#include <unistd.h>

#include <csignal>
#include <cstdint>
#include <filesystem>
#include <ostream>
#include <sstream>
#include <string>
#include <vector>

#include "tests/tools/tool_fixture.h"
#include "tools/command_line.h"

namespace ckptdb::testing {
namespace {

class ToolChanges : public ToolFixture {};

TEST_F(ToolChanges, RmRemovesSteps) {
  ExpectPrints("rm 300", AllOf(StartsWith("removed step 300 attempt "),
                               HasSubstr("\nswept step 300 attempt "),
                               HasSubstr("\nfreed 0 B of data files and "),
                               HasSubstr(" KiB that was stored inline\n")));
  EXPECT_THAT(Steps(), ElementsAre(100, 200));
}

TEST_F(ToolChanges, RmRemovesSeveralStepsAndFreesThem) {
  ASSERT_EQ(Run("unpin 200").code, 0);
  const Json rm = RunJson("rm 200 100 200");
  EXPECT_THAT(rm, Includes(R"({
      "removed_versions": [{"step": 200, "in_chain_of": []}, {"step": 100}],
      "swept_versions": [{}, {}], "quarantined_versions": []})"));
  EXPECT_GE(rm["freed_bytes"], kBigElements * 4);
  EXPECT_GT(rm["freed_inline_bytes"], 1000 * 4);  // of step 100
  EXPECT_THAT(Steps(), ElementsAre(300));
}

TEST_F(ToolChanges, RmKeepsDataThatOtherStepsUse) {
  EXPECT_THAT(RunJson("rm 100"), Includes(R"({
      "removed_versions": [{"referenced_by": [200]}],
      "swept_versions": [], "freed_inline_bytes": 0})"));
  EXPECT_EQ(Run("verify 200").code, 0);
}

TEST_F(ToolChanges, FailedCommandsChangeNothing) {
  ExpectFails("rm 300 200", 5,
              "ckptdb: rm: step 200 is pinned, so nothing was removed; "
              "run \"ckptdb unpin 200\" first\n");
  EXPECT_THAT(Steps(), ElementsAre(100, 200, 300));
  ExpectFails("rm 300 150", 2, HasSubstr("150"));
  EXPECT_THAT(Steps(), ElementsAre(100, 200, 300));
  ExpectFails("pin 100 150", 2, HasSubstr("150"));
  EXPECT_EQ(RunJson("show 100")["pinned"], false);
}

TEST_F(ToolChanges, PinAndUnpin) {
  EXPECT_EQ(RunJson("pin 100 latest")["pinned_steps"], (Json{100, 300}));
  EXPECT_THAT(RunJson("ls")["steps"], Includes(R"([
      {"pinned": true}, {"pinned": true}, {"pinned": true}])"));
  EXPECT_EQ(Run("rm 100").code, 5);
  EXPECT_EQ(RunJson("unpin 100")["unpinned_steps"], Json{100});
  EXPECT_EQ(RunJson("show 100")["pinned"], false);
  EXPECT_EQ(Run("rm 100").code, 0);
}

TEST_F(ToolChanges, GcRemovesUnneededData) {
  Own();
  ASSERT_OK(store_->Unpin(200));
  ASSERT_OK(store_->Delete(200));
  ASSERT_OK(store_->Begin({.step = 400}).status());
  Disown();
  const Json gc = RunJson("gc");
  EXPECT_THAT(gc, Includes(R"({"swept_versions": [{"step": 200}, {"step": 400}],
                               "quarantined_versions": []})"));
  EXPECT_GE(gc["freed_bytes"], kBigElements * 4);
  ExpectRun("gc", 0, "freed 0 B of data files\n", ::testing::_);
}

TEST_F(ToolChanges, BusyStoreIsNotChanged) {
  Own();
  for (const char* command : {"rm 100", "gc", "fold 100"}) {
    ExpectFails(
        command, 4,
        AllOf(HasSubstr(path()), HasSubstr("pid " + std::to_string(getpid()))));
  }
  EXPECT_THAT(Steps(), ElementsAre(100, 200, 300));
}

// The store has no holder, so its exit code differs from a busy store's.
TEST_F(ToolChanges, StoreThatCannotBeLockedIsNotBusy) {
  std::filesystem::remove(path() + "/LOCK");
  std::filesystem::create_directory(path() + "/LOCK");
  ExpectRun("gc", 5, ::testing::_,
            AllOf(HasSubstr(path()), HasSubstr("directory")));
}

TEST_F(ToolChanges, KeepsTheModesOfTheStore) {
  using std::filesystem::perms;
  const std::string db = path() + "/db";
  std::filesystem::permissions(db, perms(0750));
  for (const auto& entry : std::filesystem::directory_iterator(db)) {
    std::filesystem::permissions(entry.path(), perms(0640));
  }
  for (const char* command : {"pin 100", "rm 300", "gc"}) {
    EXPECT_EQ(Run(command).code, 0);
  }
  for (const auto& entry : std::filesystem::directory_iterator(db)) {
    EXPECT_EQ(entry.status().permissions(), perms(0640)) << entry.path();
  }
}

TEST_F(ToolChanges, WarnsIfAnotherUserOwnsTheStore) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can give files away";
  constexpr uid_t kNobody = 65534;
  ASSERT_EQ(chown(path().c_str(), kNobody, kNobody), 0);
  const std::string remedy = "chown -R --reference=" + path() + " " + path();
  ExpectRun("gc", 0, ::testing::_,
            AllOf(HasSubstr("belongs to user 65534, and user 0 now owns"),
                  HasSubstr(remedy)));
  ExpectRun("ls", 0, ::testing::_, "");
  ASSERT_EQ(chown(path().c_str(), 0, 0), 0);
  ExpectRun("gc", 0, ::testing::_, "");
}

class ToolFold : public DeltaFixture {};

TEST_F(ToolFold, MakesAFullStepWithTheSameRows) {
  const Json before = RunJson("row user -2")["slots"];
  ExpectPrints("fold 400",
               ContainsRegex("^before: step 400 attempt [0-9]+, 3 deltas of "
                             "[0-9.]+ K?i?B over a base of [0-9.]+ K?i?B\n"
                             "after: step 400 attempt [0-9]+, no deltas; wrote "
                             "14 rows in [0-9.]+ K?i?B, in "));
  EXPECT_EQ(RunJson("row user -2")["slots"], before);
  EXPECT_EQ(Run("row user 50").code, 2);
  EXPECT_EQ(Run("verify").code, 0);
}

TEST_F(ToolFold, AsJson) {
  const Json fold = RunJson("fold latest");
  EXPECT_EQ(fold["store"], path());
  EXPECT_THAT(fold, Includes(R"({
      "folded": true, "before": {"step": 400, "kind": "delta", "deltas": 3},
      "after": {"step": 400, "kind": "full", "deltas": 0}, "written_rows": 14,
      "resumed_parts": 0, "quarantined_versions": []})"));
  EXPECT_GT(fold["after"]["attempt"], fold["before"]["attempt"]);
  EXPECT_GT(fold["written_bytes"], 0);
  EXPECT_GE(fold["parts"], 1);
  EXPECT_TRUE(fold["fold_micros"].is_number());
  EXPECT_TRUE(fold["freed_bytes"].is_number());
}

TEST_F(ToolFold, KeepsDeltaRunsThatLeadToTheStep) {
  const int64_t attempt = RunJson("show 400")["attempt"];
  ASSERT_EQ(Run("fold 400").code, 0);
  const Json chain = RunJson("chain 400");
  EXPECT_THAT(chain, Includes(R"({
      "versions": [{}], "folded_from": {"kind": "delta", "rows": 2}})"));
  EXPECT_EQ(chain["folded_from"]["attempt"], attempt);
  EXPECT_THAT(Run("chain 400").out,
              ContainsRegex(" delta +\\+2 .* folded into this step\n"));
  const Json show = RunJson("show 400");
  EXPECT_EQ(show["kind"], "full");
  EXPECT_EQ(show["folded_from"]["attempt"], attempt);
  EXPECT_THAT(Run("show 400").out,
              ContainsRegex("\nfolded from +step 400 attempt "));
  EXPECT_THAT(RunJson("du")["held_versions"],
              Includes(R"([{"folded_into": [400]}])"));
  // The delta runs still lead to the step.
  EXPECT_EQ(RunJson("history item 2")["events"].size(), 2u);
}

TEST_F(ToolFold, FreesTheChain) {
  ASSERT_EQ(Run("rm 100 200 300").code, 0);
  EXPECT_EQ(RunJson("du")["held_versions"].size(), 3u);
  // Step 100 has the tensor that all later steps use.
  EXPECT_EQ(RunJson("fold 400")["swept_versions"].size(), 2u);
  EXPECT_EQ(RunJson("row user 1")["slots"][1]["values"], Json{2});
}

TEST_F(ToolFold, StepWithoutAChainIsUnchanged) {
  ExpectPrints("fold 100", "step 100 has no chain to fold and is unchanged\n");
  const Json json = RunJson("fold 100");
  EXPECT_THAT(json, Includes(R"({"folded": false, "swept_versions": []})"));
  EXPECT_EQ(json["before"], json["after"]);
}

TEST_F(ToolFold, FailsIfTheStepIsMissing) {
  ExpectFails("fold 150", 2, HasSubstr("150"));
}

// Presses Ctrl-C when the command has printed its first line.
class InterruptingBuffer : public std::stringbuf {
 private:
  int sync() override {
    if (!done_) std::raise(SIGINT);
    done_ = true;
    return 0;
  }
  bool done_ = false;
};

class BigToolFold : public BigDeltaFixture {};

TEST_F(BigToolFold, ResumesAfterAnInterrupt) {
  InterruptingBuffer buffer;
  std::ostream out(&buffer);
  std::ostringstream err;
  const std::string store = path();
  const std::vector<const char*> words = {"ckptdb", "fold", "200", "-s",
                                          store.c_str()};
  EXPECT_EQ(tool::RunCommandLine(static_cast<int>(words.size()), words.data(),
                                 {&out, &err, nullptr}),
            tool::ExitCode::kFailed);
  EXPECT_THAT(buffer.str(),
              ::testing::MatchesRegex("before: step 200 attempt [^\n]*\n"));
  EXPECT_EQ(err.str(),
            "ckptdb: fold: step 200: the fold was interrupted and the step is "
            "unchanged; run \"ckptdb fold 200\" again to resume it\n");
  EXPECT_EQ(RunJson("show 200")["kind"], "delta");
  EXPECT_THAT(
      RunJson("fold 200"),
      Includes(R"({"after": {"kind": "full"}, "written_rows": 19999})"));
  EXPECT_EQ(Run("verify").code, 0);
}

TEST_F(BigToolFold, FreesTheFilesOfTheChain) {
  ASSERT_EQ(Run("rm 100").code, 0);
  ExpectRun("fold 200", 0,
            AllOf(HasSubstr("; wrote 19,999 rows in 9."),
                  ContainsRegex("\nfreed 9\\.[0-9] MiB of data files\n$")),
            ::testing::_);
}

}  // namespace
}  // namespace ckptdb::testing
