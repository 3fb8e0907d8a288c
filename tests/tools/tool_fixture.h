// SPDX-License-Identifier: Apache-2.0
// Tests of the command on a store with known contents.
#ifndef CKPTDB_TESTS_TOOLS_TOOL_FIXTURE_H_
#define CKPTDB_TESTS_TOOLS_TOOL_FIXTURE_H_

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "db/store.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"
#include "tests/tools/run_tool.h"
#include "tests/tools/sample_store.h"

namespace ckptdb::testing {

using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;
using Json = nlohmann::json;
using Words = std::vector<std::string>;
using Text = ::testing::Matcher<const std::string&>;

// Matches a text that contains a match of each of these.
template <typename... Regex>
auto ContainsAll(const Regex&... regexes) {
  return AllOf(ContainsRegex(std::string(regexes))...);
}

// Returns where a document differs from what is expected: objects may have more
// fields, arrays have as many elements.
inline std::string Difference(const Json& got, const Json& expected,
                              const std::string& at) {
  if (!got.is_structured() || got.type() != expected.type() ||
      (got.is_array() && got.size() != expected.size())) {
    return got == expected ? "" : at + " is " + got.dump();
  }
  for (const auto& [key, value] : expected.items()) {
    const std::string below = at + "/" + key;
    if (got.is_object() && !got.contains(key)) return below + " is missing";
    const Json& part = got.is_array() ? got[std::stoul(key)] : got[key];
    std::string difference = Difference(part, value, below);
    if (!difference.empty()) return difference;
  }
  return "";
}
MATCHER_P(Includes, json, json) {
  const std::string difference = Difference(arg, Json::parse(json), "");
  *result_listener << difference;
  return difference.empty();
}

class ToolFixture : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_OK_AND_ASSIGN(store_, MakeStore());
    store_.reset();
  }
  virtual absl::StatusOr<std::unique_ptr<Store>> MakeStore() const {
    return MakeSampleStore(path());
  }

  std::string path() const { return dir_.path() + "/store"; }

  // Runs the command on the store: "rm 100 200". Words have no spaces.
  ToolResult Run(const std::string& command) const {
    return RunLine(command, {"--store", path()});
  }
  // Returns the document that it prints. It must succeed and print nothing
  // else.
  Json RunJson(const std::string& command) const {
    const ToolResult result = Run(command + " --json");
    EXPECT_EQ(result.code, 0);
    EXPECT_EQ(result.err, "");
    return result.Json();
  }
  void ExpectRun(const std::string& command, int code, const Text& out,
                 const Text& err) const {
    SCOPED_TRACE(command);
    const ToolResult result = Run(command);
    EXPECT_EQ(result.code, code);
    EXPECT_THAT(result.out, out);
    EXPECT_THAT(result.err, err);
  }
  // It succeeds without errors.
  void ExpectPrints(const std::string& command, const Text& out) const {
    ExpectRun(command, 0, out, "");
  }
  // It fails without output, and names itself.
  void ExpectFails(const std::string& command, int code,
                   const Text& err) const {
    const std::string name = command.substr(0, command.find(' '));
    ExpectRun(command, code, "",
              AllOf(StartsWith("ckptdb: " + name + ": "), err));
  }
  // Returns the steps of the store.
  std::vector<int64_t> Steps() const {
    std::vector<int64_t> steps;
    const Json ls = RunJson("ls");
    for (const auto& step : ls["steps"]) {
      steps.push_back(step["step"].get<int64_t>());
    }
    return steps;
  }

  // Makes this process the owner of the store.
  void Own() {
    StoreOptions options;
    options.create_if_missing = false;
    options.background_sweep = false;
    ASSERT_OK_AND_ASSIGN(store_, Store::Open(path(), options));
  }
  void Disown() { store_.reset(); }

  // Flips a byte in the middle of the largest file of the store.
  void DamageLargestFile() const {
    std::filesystem::path largest;
    uintmax_t largest_bytes = 0;
    for (const auto& entry :
         std::filesystem::recursive_directory_iterator(path())) {
      if (!entry.is_regular_file() || entry.file_size() <= largest_bytes) {
        continue;
      }
      largest = entry.path();
      largest_bytes = entry.file_size();
    }
    std::fstream file(largest, std::ios::in | std::ios::out | std::ios::binary);
    const auto middle = static_cast<std::streamoff>(largest_bytes / 2);
    file.seekg(middle);
    const char byte = static_cast<char>(file.get() ^ 0x40);
    file.seekp(middle);
    file.put(byte);
    ASSERT_TRUE(file.good());
  }

  TempDir dir_;
  std::unique_ptr<Store> store_;
};

// The same for stores with delta steps.
template <absl::StatusOr<std::unique_ptr<Store>> (*kMake)(const std::string&)>
class FixtureOf : public ToolFixture {
 protected:
  absl::StatusOr<std::unique_ptr<Store>> MakeStore() const override {
    return kMake(path());
  }
};
using DeltaFixture = FixtureOf<MakeDeltaStore>;
using BigDeltaFixture = FixtureOf<MakeBigDeltaStore>;

}  // namespace ckptdb::testing

#endif  // CKPTDB_TESTS_TOOLS_TOOL_FIXTURE_H_
