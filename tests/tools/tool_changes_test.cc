// SPDX-License-Identifier: Apache-2.0
// rm, gc, pin, unpin: their effect on a store, and on one that is in use.
#include <unistd.h>

#include <filesystem>
#include <string>
#include <vector>

#include "tests/tools/tool_fixture.h"

namespace ckptdb::testing {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;
using Json = nlohmann::json;

class ToolChanges : public ToolFixture {};

TEST_F(ToolChanges, RmRemovesSteps) {
  const ToolResult rm = Run({"rm", "300"});
  EXPECT_EQ(rm.code, 0);
  EXPECT_EQ(rm.err, "");
  EXPECT_THAT(rm.out, AllOf(StartsWith("removed step 300 attempt "),
                            HasSubstr("\nswept step 300 attempt "),
                            HasSubstr("\nfreed 0 B of data files and "),
                            HasSubstr(" KiB that was stored inline\n")));
  EXPECT_THAT(Steps(), ElementsAre(100, 200));
}

TEST_F(ToolChanges, RmRemovesSeveralStepsAndFreesThem) {
  ASSERT_EQ(Run({"unpin", "200"}).code, 0);
  const Json rm = RunJson({"rm", "200", "100", "200"});
  ASSERT_EQ(rm["removed_versions"].size(), 2u);
  EXPECT_EQ(rm["removed_versions"][0]["step"], 200);
  EXPECT_EQ(rm["removed_versions"][1]["step"], 100);
  EXPECT_EQ(rm["swept_versions"].size(), 2u);
  EXPECT_GE(rm["freed_bytes"], kBigElements * 4);
  EXPECT_GT(rm["freed_inline_bytes"], 1000 * 4);  // of step 100
  EXPECT_THAT(rm["removed_versions"][0]["in_chain_of"], IsEmpty());
  EXPECT_THAT(rm["quarantined_versions"], IsEmpty());
  EXPECT_THAT(Steps(), ElementsAre(300));
}

TEST_F(ToolChanges, RmKeepsDataThatOtherStepsUse) {
  const Json rm = RunJson({"rm", "100"});
  ASSERT_EQ(rm["removed_versions"].size(), 1u);
  EXPECT_EQ(rm["removed_versions"][0]["referenced_by"], Json{200});
  EXPECT_THAT(rm["swept_versions"], IsEmpty());
  EXPECT_EQ(rm["freed_inline_bytes"], 0);
  EXPECT_EQ(Run({"verify", "200"}).code, 0);
}

TEST_F(ToolChanges, RmRefusesPinnedStepsAndRemovesNothing) {
  const ToolResult rm = Run({"rm", "300", "200"});
  EXPECT_EQ(rm.code, 5);
  EXPECT_EQ(rm.out, "");
  EXPECT_EQ(rm.err,
            "ckptdb: rm: step 200 is pinned, so nothing was removed; "
            "run \"ckptdb unpin 200\" first\n");
  EXPECT_THAT(Steps(), ElementsAre(100, 200, 300));
}

TEST_F(ToolChanges, RmOfAMissingStepRemovesNothing) {
  const ToolResult rm = Run({"rm", "300", "150"});
  EXPECT_EQ(rm.code, 2);
  EXPECT_THAT(rm.err, AllOf(StartsWith("ckptdb: rm: "), HasSubstr("150")));
  EXPECT_THAT(Steps(), ElementsAre(100, 200, 300));
}

TEST_F(ToolChanges, PinAndUnpin) {
  EXPECT_EQ(RunJson({"pin", "100", "latest"})["pinned_steps"],
            (Json{100, 300}));
  const Json ls = RunJson({"ls"});
  for (const Json& step : ls["steps"]) {
    EXPECT_EQ(step["pinned"], true) << step;
  }
  EXPECT_EQ(Run({"rm", "100"}).code, 5);
  EXPECT_EQ(RunJson({"unpin", "100"})["unpinned_steps"], Json{100});
  EXPECT_EQ(RunJson({"show", "100"})["pinned"], false);
  EXPECT_EQ(Run({"rm", "100"}).code, 0);
}

TEST_F(ToolChanges, PinOfAMissingStepPinsNothing) {
  const ToolResult pin = Run({"pin", "100", "150"});
  EXPECT_EQ(pin.code, 2);
  EXPECT_EQ(pin.out, "");
  EXPECT_THAT(pin.err, HasSubstr("150"));
  EXPECT_EQ(RunJson({"show", "100"})["pinned"], false);
}

TEST_F(ToolChanges, GcRemovesUnneededData) {
  Own();
  ASSERT_OK(store_->Unpin(200));
  ASSERT_OK(store_->Delete(200));
  ASSERT_OK(store_->Begin({.step = 400}).status());
  Disown();
  const Json gc = RunJson({"gc"});
  ASSERT_EQ(gc["swept_versions"].size(), 2u);
  EXPECT_EQ(gc["swept_versions"][0]["step"], 200);
  EXPECT_EQ(gc["swept_versions"][1]["step"], 400);
  EXPECT_GE(gc["freed_bytes"], kBigElements * 4);
  EXPECT_THAT(gc["quarantined_versions"], IsEmpty());
  const ToolResult again = Run({"gc"});
  EXPECT_EQ(again.code, 0);
  EXPECT_EQ(again.out, "freed 0 B of data files\n");
}

TEST_F(ToolChanges, BusyStoreIsNotChanged) {
  Own();
  for (const std::vector<std::string>& command :
       std::vector<std::vector<std::string>>{
           {"rm", "100"}, {"gc"}, {"fold", "100"}}) {
    const ToolResult result = Run(command);
    EXPECT_EQ(result.code, 4) << command[0];
    EXPECT_EQ(result.out, "");
    EXPECT_THAT(
        result.err,
        AllOf(StartsWith("ckptdb: " + command[0] + ": "), HasSubstr(path()),
              HasSubstr("pid " + std::to_string(getpid()))));
  }
  EXPECT_THAT(Steps(), ElementsAre(100, 200, 300));
}

// The store has no holder, so its exit code differs from a busy store's.
TEST_F(ToolChanges, StoreThatCannotBeLockedIsNotBusy) {
  std::filesystem::remove(path() + "/LOCK");
  std::filesystem::create_directory(path() + "/LOCK");
  const ToolResult result = Run({"gc"});
  EXPECT_EQ(result.code, 5);
  EXPECT_THAT(result.err, AllOf(HasSubstr(path()), HasSubstr("directory")));
}

TEST_F(ToolChanges, KeepsTheModesOfTheStore) {
  using std::filesystem::perms;
  std::filesystem::permissions(path() + "/db", perms(0750));
  for (const auto& entry :
       std::filesystem::directory_iterator(path() + "/db")) {
    std::filesystem::permissions(entry.path(), perms(0640));
  }
  for (const std::vector<std::string>& command :
       std::vector<std::vector<std::string>>{
           {"pin", "100"}, {"rm", "300"}, {"gc"}}) {
    EXPECT_EQ(Run(command).code, 0);
  }
  for (const auto& entry :
       std::filesystem::directory_iterator(path() + "/db")) {
    EXPECT_EQ(entry.status().permissions(), perms(0640)) << entry.path();
  }
}

}  // namespace
}  // namespace ckptdb::testing
