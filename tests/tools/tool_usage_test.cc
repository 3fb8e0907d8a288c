// SPDX-License-Identifier: Apache-2.0
// Which store the command opens, and its errors if it cannot.
#include <filesystem>
#include <string>

#include "absl/strings/str_cat.h"
#include "ckptdb/version.h"
#include "tests/tools/tool_fixture.h"

namespace ckptdb::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

class ToolUsage : public ToolFixture {};

TEST_F(ToolUsage, FlagNamesTheStore) {
  const TempDir other;
  ToolSetting elsewhere;
  elsewhere.folder = other.path();
  elsewhere.store_variable = other.path();
  EXPECT_EQ(RunTool({"ls", "-s", path()}, elsewhere).code, 0);
  EXPECT_EQ(RunTool({"-s", path(), "ls"}, elsewhere).code, 0);
  EXPECT_EQ(RunTool({"ls"}, elsewhere).code, 2);
}

TEST_F(ToolUsage, EnvironmentNamesTheStore) {
  const TempDir other;
  ToolSetting elsewhere;
  elsewhere.folder = other.path();
  elsewhere.store_variable = path();
  EXPECT_EQ(RunTool({"show", "100"}, elsewhere).code, 0);
}

TEST_F(ToolUsage, DefaultStoreIsTheCurrentFolder) {
  ToolSetting inside;
  inside.folder = path();
  EXPECT_EQ(RunTool({"show", "100"}, inside).code, 0);
}

TEST_F(ToolUsage, JsonFlagMayPrecedeTheCommand) {
  EXPECT_EQ(RunTool({"--json", "ls", "-s", path()}).Json()["store"], path());
}

TEST_F(ToolUsage, NamesAFolderWithoutAStore) {
  const TempDir empty;
  for (const char* command : {"ls", "verify", "du", "gc"}) {
    const ToolResult result = RunTool({command, "-s", empty.path()});
    EXPECT_EQ(result.code, 2) << command;
    EXPECT_EQ(result.out, "");
    EXPECT_THAT(result.err,
                AllOf(StartsWith(std::string("ckptdb: ") + command + ": "),
                      HasSubstr(empty.path())));
  }
  EXPECT_TRUE(std::filesystem::is_empty(empty.path()));
}

TEST_F(ToolUsage, ErrorSaysHowToNameAStore) {
  const TempDir empty;
  ToolSetting inside;
  inside.folder = empty.path();
  const ToolResult result = RunTool({"ls"}, inside);
  EXPECT_EQ(result.code, 2);
  EXPECT_THAT(result.err,
              AllOf(HasSubstr("--store"), HasSubstr("CKPTDB_STORE")));
}

TEST_F(ToolUsage, RejectsAnInvalidStep) {
  const ToolResult result = Run({"show", "x7"});
  EXPECT_EQ(result.code, 1);
  EXPECT_EQ(result.out, "");
  EXPECT_THAT(result.err,
              AllOf(StartsWith("ckptdb: show: "), HasSubstr("\"x7\"")));
}

TEST_F(ToolUsage, FailsWhenTheOutputCannotBeWritten) {
  ToolSetting full;
  full.out_path = "/dev/full";
  const ToolResult result = RunTool({"ls", "-s", path()}, full);
  EXPECT_EQ(result.code, 5);
  EXPECT_EQ(result.err, "ckptdb: ls: cannot write to standard output\n");
}

TEST(ToolVersion, EqualsTheVersionOfTheBuild) {
  const ToolResult result = RunTool({"--version"});
  EXPECT_EQ(result.code, 0);
  EXPECT_EQ(result.out, absl::StrCat("ckptdb ", LibraryVersion(), "\n"));
  EXPECT_EQ(result.err, "");
}

}  // namespace
}  // namespace ckptdb::testing
