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
#include "tests/tools/delta_store.h"
#include "tests/tools/run_tool.h"
#include "tests/tools/sample_store.h"

namespace ckptdb::testing {

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

  // Runs the command on the store.
  ToolResult Run(std::vector<std::string> arguments) const {
    arguments.insert(arguments.end(), {"--store", path()});
    return RunTool(arguments);
  }
  // Returns the document that it prints. It must succeed and print nothing
  // else.
  nlohmann::json RunJson(std::vector<std::string> arguments) const {
    arguments.emplace_back("--json");
    const ToolResult result = Run(std::move(arguments));
    EXPECT_EQ(result.code, 0);
    EXPECT_EQ(result.err, "");
    return result.Json();
  }
  // Returns the steps of the store.
  std::vector<int64_t> Steps() const {
    std::vector<int64_t> steps;
    const nlohmann::json ls = RunJson({"ls"});
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
class DeltaFixture : public ToolFixture {
 protected:
  absl::StatusOr<std::unique_ptr<Store>> MakeStore() const override {
    return MakeDeltaStore(path());
  }
};

class BigDeltaFixture : public ToolFixture {
 protected:
  absl::StatusOr<std::unique_ptr<Store>> MakeStore() const override {
    return MakeBigDeltaStore(path());
  }
};

}  // namespace ckptdb::testing

#endif  // CKPTDB_TESTS_TOOLS_TOOL_FIXTURE_H_
