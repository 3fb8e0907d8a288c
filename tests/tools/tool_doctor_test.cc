// SPDX-License-Identifier: Apache-2.0
// ckptdb doctor as users run it, with processes instead of hosts.
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <future>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/temp_dir.h"
#include "tests/tools/run_tool.h"

namespace ckptdb::testing {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::UnorderedElementsAre;

class ToolDoctor : public ::testing::Test {
 protected:
  ToolDoctor() {
    std::ofstream(dir_.path() + "/mine") << "bytes";
    fs::create_directory(dir_.path() + "/.ckptdb-doctor-old");
  }
  // The folder has its original files, and no others.
  void ExpectUntouched() const {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(dir_.path())) {
      names.push_back(entry.path().filename());
    }
    EXPECT_THAT(names, UnorderedElementsAre("mine", ".ckptdb-doctor-old"));
    EXPECT_EQ(fs::file_size(dir_.path() + "/mine"), 5U);
  }
  ToolResult Run(const std::string& flags) const {
    return RunLine("doctor " + flags, {dir_.path()});
  }

  TempDir dir_;
};

TEST_F(ToolDoctor, ChecksAFolderAndLeavesItUnchanged) {
  const ToolResult result = Run("--speed-mib 1");
  EXPECT_EQ(result.code, 0) << result.out << result.err;
  EXPECT_THAT(result.out, HasSubstr("A store can be put here"));
  EXPECT_THAT(result.out, HasSubstr("Checked from one host"));
  EXPECT_THAT(result.out, HasSubstr("write and fsync 1.0 MiB"));
  ExpectUntouched();
}

TEST_F(ToolDoctor, ChecksBetweenProcessesOfASession) {
  const auto run = [&] {
    return Run("--hosts 3 --session t1 --speed-mib 1 --json");
  };
  auto second = std::async(std::launch::async, run);
  auto third = std::async(std::launch::async, run);
  std::vector<ToolResult> results = {run(), second.get(), third.get()};
  int leads = 0;
  for (const ToolResult& result : results) {
    EXPECT_EQ(result.code, 0) << result.err;
    const nlohmann::json json = result.Json();
    if (json["leads"] != true) {
      EXPECT_EQ(json["checks"].size(), 0U);
      continue;
    }
    ++leads;
    EXPECT_EQ(json["hosts"].size(), 3U);
    EXPECT_EQ(json["speed"]["reads"].size(), 3U);
  }
  EXPECT_EQ(leads, 1);
  ExpectUntouched();
}

TEST_F(ToolDoctor, CleansUpAfterASignal) {
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    const ToolResult result = Run("--hosts 2 --session t2");
    _exit(result.code == 5 &&
                  result.err.find("interrupted") != std::string::npos
              ? 0
              : 1);
  }
  const fs::path folder = dir_.path() + "/.ckptdb-doctor-t2";
  int status = 0;
  while (!fs::exists(folder)) {
    ASSERT_EQ(waitpid(child, &status, WNOHANG), 0) << "the command has ended";
    ::poll(nullptr, 0, /*timeout=*/5);
  }
  // The command is the only child of the child.
  const std::string children = "/proc/" + std::to_string(child) + "/task/" +
                               std::to_string(child) + "/children";
  pid_t command = 0;
  std::ifstream(children) >> command;
  ASSERT_GT(command, 0);
  EXPECT_EQ(kill(command, SIGINT), 0);
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  ExpectUntouched();
}

TEST_F(ToolDoctor, ChecksAFolderAsARemote) {
  const std::string folder = dir_.path() + "/remote";
  fs::create_directory(folder);
  const ToolResult result = RunTool({"doctor", "file://" + folder});
  EXPECT_EQ(result.code, 0) << result.out << result.err;
  for (const char* words :
       {"a second put of the same key is refused", "MB/s",
        "nothing was shipped here yet", "Steps can be shipped here"}) {
    EXPECT_THAT(result.out, HasSubstr(words));
  }
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    EXPECT_FALSE(entry.is_regular_file()) << entry.path();
  }
}

TEST_F(ToolDoctor, RefusesPlacesThatAreNoRemote) {
  const std::string none = "file://" + dir_.path() + "/none";
  const ToolResult missing = RunTool({"doctor", none});
  EXPECT_EQ(missing.code, 2);
  EXPECT_THAT(missing.err, HasSubstr("create it"));
  EXPECT_EQ(RunTool({"doctor", "file://" + dir_.path() + "/mine"}).code, 1);
  const ToolResult hosts =
      RunTool({"doctor", none, "--hosts", "2", "--session", "x"});
  EXPECT_EQ(hosts.code, 1);
  EXPECT_THAT(hosts.err, HasSubstr("is a URL"));
  const ToolResult other = RunTool({"doctor", "ftp://a/b"});
  EXPECT_EQ(other.code, 1);
  EXPECT_THAT(other.err, HasSubstr("s3://bucket/prefix"));
  ExpectUntouched();
}

TEST_F(ToolDoctor, RejectsInvalidArguments) {
  const auto expect_usage = [](const ToolResult& result, const char* message) {
    EXPECT_EQ(result.code, 1);
    EXPECT_THAT(result.err, HasSubstr(message));
  };
  expect_usage(Run("--hosts 2"), "--hosts 2 requires --session");
  expect_usage(Run("--session a/b"), "invalid session \"a/b\"; expected");
  expect_usage(Run("--hosts 0"), "--hosts");
  expect_usage(Run("--session monday"), "--session monday requires --hosts");
  expect_usage(RunTool({"doctor", dir_.path() + "/mine"}), "not a folder");
  EXPECT_EQ(RunTool({"doctor", dir_.path() + "/none"}).code, 2);
  ExpectUntouched();
}

}  // namespace
}  // namespace ckptdb::testing
