// SPDX-License-Identifier: Apache-2.0
// Files in the folder that do not belong to the store, and names with invisible
// characters.
#include <sys/mount.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>

#include "tests/tools/tool_fixture.h"

namespace ckptdb::testing {
namespace {

namespace fs = std::filesystem;

using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

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
  const nlohmann::json du = RunJson({"du"});
  uint64_t bytes = 0;
  for (const auto& entry : fs::recursive_directory_iterator(path())) {
    if (entry.is_regular_file()) bytes += entry.file_size();
  }
  EXPECT_EQ(du["disk_bytes"], bytes);
  EXPECT_EQ(du["foreign_bytes"], 1234);
  EXPECT_EQ(du["exclusive_bytes"].get<uint64_t>() +
                du["held_bytes"].get<uint64_t>() +
                du["overhead_bytes"].get<uint64_t>() +
                du["staging_bytes"].get<uint64_t>() +
                du["control_bytes"].get<uint64_t>() +
                du["spare_bytes"].get<uint64_t>() +
                du["foreign_bytes"].get<uint64_t>(),
            bytes);
  EXPECT_EQ(du["unswept"].size(), 2u);
  const ToolResult text = Run({"du"});
  EXPECT_EQ(text.code, 0);
  EXPECT_THAT(text.out,
              AllOf(ContainsRegex("\nRocksDB overhead +[0-9.]+ [KM]iB\n"),
                    ContainsRegex("\nnot the store's +1.2 KiB\n"),
                    ContainsRegex("\navailable +[0-9.]+ [GTP]iB\n"),
                    HasSubstr("\nnot the store's: README: "),
                    HasSubstr("\nnot the store's: staging/mine: ")));
}

TEST_F(ToolUnswept, GcNamesForeignFiles) {
  Put("leases/notes.txt", 10);
  const ToolResult text = Run({"gc"});
  EXPECT_EQ(text.code, 0);
  EXPECT_THAT(text.out, HasSubstr("not the store's: leases/notes.txt: "));
  const nlohmann::json gc = RunJson({"gc"});
  ASSERT_EQ(gc["unswept"].size(), 1u);
  EXPECT_EQ(gc["unswept"][0]["path"], "leases/notes.txt");
  EXPECT_EQ(gc["unswept"][0]["foreign"], true);
  EXPECT_TRUE(fs::exists(path() + "/leases/notes.txt"));
}

TEST_F(ToolUnswept, GcFailsIfAnEntryCannotBeRemoved) {
  const std::string at = path() + "/staging/1";
  fs::create_directories(at);
  if (mount(dir_.path().c_str(), at.c_str(), nullptr, MS_BIND, nullptr) != 0) {
    GTEST_SKIP() << "no mounts here: " << std::strerror(errno);
  }
  const ToolResult gc = Run({"gc"});
  const ToolResult du = Run({"du"});
  ASSERT_EQ(umount(at.c_str()), 0);
  EXPECT_EQ(gc.code, 5);
  EXPECT_THAT(gc.out, AllOf(HasSubstr("freed "),
                            HasSubstr("not removed: staging/1: ")));
  EXPECT_THAT(gc.err, HasSubstr("1 of its entries could not be removed"));
  EXPECT_THAT(du.out, HasSubstr("not removed: staging/1: "));
  EXPECT_EQ(Run({"gc"}).code, 0);
}

TEST_F(ToolUnswept, FifoAmongLeasesDoesNotBlock) {
  ASSERT_EQ(mkfifo((path() + "/leases/fifo").c_str(), 0644), 0);
  for (const char* command : {"ls", "du", "gc"}) {
    EXPECT_EQ(Run({command}).code, 0) << command;
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
    const ToolResult items =
        json ? Run({"items", "900", "--json"}) : Run({"items", "900"});
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

}  // namespace
}  // namespace ckptdb::testing
