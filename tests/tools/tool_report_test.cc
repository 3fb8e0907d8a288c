// SPDX-License-Identifier: Apache-2.0
// report: a page with charts of a store.
#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <limits>
#include <string>
#include <vector>

#include "tests/tools/tool_fixture.h"

namespace ckptdb::testing {
namespace {

class ToolReport : public ToolFixture {
 protected:
  std::string page() const { return dir_.path() + "/report.html"; }
  static std::string Read(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  void Save(int64_t step, const std::vector<float>& values,
            const std::string& name = "w") {
    RankState state;
    const auto count = static_cast<int64_t>(values.size());
    state.AddTensor(name, TensorView::Of(values.data(), {count}));
    Own();
    ASSERT_OK(store_->Save({.step = step}, state).status());
    Disown();
  }
};

TEST_F(ToolReport, DataOfTheSampleStore) {
  const Json data = RunJson("report");
  EXPECT_THAT(data,
              Includes(R"({"all_steps": 3, "findings": [], "saves": []})"));
  ASSERT_EQ(data["steps"].size(), 3);
  EXPECT_THAT(data["steps"][0],
              Includes(R"({"step": 100, "kind": "full", "chain_length": 1,
                           "parent": null, "tables": [{"name": "user",
                           "rows": 1000, "erased_rows": 0}]})"));
  EXPECT_THAT(data["steps"][2], Includes(R"({"step": 300, "world_size": 2,
                           "tables": [{"name": "user", "rows": 1500}]})"));
  ASSERT_EQ(data["tensors"].size(), 1) << data["tensors"].dump();
  EXPECT_EQ(data["tensors"][0]["name"], "mlp.weight");
  ASSERT_EQ(data["tensors"][0]["steps"].size(), 3);
  EXPECT_THAT(
      data["tensors"][0]["steps"][0],
      Includes(R"({"step": 100, "min": 1.5, "max": 12.5, "mean": 7.0})"));
  EXPECT_THAT(data["tensors"][0]["steps"][1],
              Includes(R"({"relative_l2": 0.0, "cosine": 1.0})"));
  // It has another shape.
  EXPECT_THAT(data["tensors"][0]["steps"][2],
              Includes(R"({"relative_l2": null, "cosine": null})"));
}

TEST_F(ToolReport, DriftOfTensors) {
  Save(900, {3, 4});
  Save(1000, {3, -4});
  const Json data = RunJson("report");
  ASSERT_EQ(data["tensors"].size(), 1);
  const Json& steps = data["tensors"][0]["steps"];
  ASSERT_EQ(steps.size(), 2);
  EXPECT_THAT(steps[0], Includes(R"({"relative_l2": null, "cosine": null})"));
  EXPECT_THAT(steps[1], Includes(R"({"relative_l2": 1.6, "cosine": -0.28})"));
}

TEST_F(ToolReport, PageNeedsNoOtherFile) {
  const ToolResult report = Run("report " + page());
  if (report.err.find("built without Chart.js") != std::string::npos) {
    GTEST_SKIP() << report.err;
  }
  EXPECT_EQ(report.code, 0) << report.err;
  EXPECT_EQ(report.out, "wrote " + page() + ": 3 steps, 0 findings\n");
  const std::string text = Read(page());
  EXPECT_THAT(text, StartsWith("<!doctype html>"));
  EXPECT_THAT(text, HasSubstr("Chart.js v"));
  EXPECT_THAT(text, HasSubstr(R"("name":"mlp.weight")"));
  EXPECT_THAT(text, Not(ContainsRegex("(src|href) *= *[\"'](https?:)?//")));
  EXPECT_THAT(text, Not(HasSubstr("@DATA@")));
  EXPECT_THAT(text, Not(HasSubstr("@SCRIPT@")));
}

TEST_F(ToolReport, NamesDoNotEndTheScript) {
  Save(900, {1, 2, 3, 4}, "</script><b>@DATA@");
  const ToolResult report = Run("report " + page());
  if (report.code != 0) GTEST_SKIP() << report.err;
  const std::string text = Read(page());
  EXPECT_THAT(text, HasSubstr(R"(\u003c/script>\u003cb>@DATA@)"));
  EXPECT_THAT(text, Not(HasSubstr("<b>@DATA@")));
}

TEST_F(ToolReport, ReplacesAPageOnlyByForce) {
  std::ofstream(page()) << "mine";
  const ToolResult refused = Run("report " + page());
  EXPECT_NE(refused.code, 0);
  EXPECT_THAT(refused.err, HasSubstr("exists; replace it with --force"));
  EXPECT_EQ(Read(page()), "mine");
  const ToolResult forced = Run("report --force " + page());
  if (forced.code != 0) GTEST_SKIP() << forced.err;
  EXPECT_THAT(Read(page()), StartsWith("<!doctype html>"));
  // No temporary file is left.
  size_t files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(dir_.path())) {
    files += entry.is_regular_file() ? 1 : 0;
  }
  EXPECT_EQ(files, 1);
}

TEST_F(ToolReport, TakesTheFileThatAKilledReportLeft) {
  const std::string part = dir_.path() + "/.report.html.ckptdb-page";
  std::ofstream(part) << std::string(10'000'000, 'x');
  const ToolResult report = Run("report " + page());
  if (report.code != 0) GTEST_SKIP() << report.err;
  EXPECT_FALSE(std::filesystem::exists(part));
  EXPECT_LT(std::filesystem::file_size(page()), 1'000'000);
  std::filesystem::create_symlink(page(), part);
  const ToolResult linked = Run("report --force " + page());
  EXPECT_EQ(linked.code, 5) << linked.err;
  EXPECT_THAT(linked.err, HasSubstr(part));
}

TEST_F(ToolReport, ReportsOfOnePageExcludeEachOther) {
  const std::string part = dir_.path() + "/.report.html.ckptdb-page";
  const int file = open(part.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
  ASSERT_EQ(flock(file, LOCK_EX), 0);
  const ToolResult report = Run("report " + page());
  close(file);
  if (report.err.find("built without Chart.js") != std::string::npos) {
    GTEST_SKIP() << report.err;
  }
  EXPECT_EQ(report.code, 5) << report.err;
  EXPECT_THAT(report.err, HasSubstr("another report"));
}

TEST_F(ToolReport, FindsNan) {
  Save(900, {1, std::nanf(""), std::numeric_limits<float>::infinity(), 2});
  const Json data = RunJson("report");
  EXPECT_EQ(
      data["findings"],
      Json::parse(R"(["step 900: tensor w has 1 NaN and 1 infinite values"])"));
}

TEST_F(ToolReport, GoesOnAfterDamage) {
  Save(900, std::vector<float>(kBigElements + 1000, 1));
  DamageLargestFile();
  const ToolResult report = Run("report --json");
  EXPECT_EQ(report.code, 0) << report.err;
  const Json data = report.Json();
  ASSERT_EQ(data["findings"].size(), 1) << data["findings"].dump();
  EXPECT_THAT(data["findings"][0].get<std::string>(),
              AllOf(StartsWith("step 900: "), HasSubstr("\"w\"")));
  EXPECT_EQ(data["steps"].size(), 4);
}

TEST_F(ToolReport, StatisticsOfTheManager) {
  const std::string lines = dir_.path() + "/saves.jsonl";
  std::ofstream(lines) << R"({"event": "save", "step": 1, "total_micros": 5})"
                       << "\n{\"event\": \"restore\"}\nhalf a li\n";
  const Json data = RunJson("report --file " + lines);
  ASSERT_EQ(data["saves"].size(), 1);
  EXPECT_EQ(data["saves"][0]["total_micros"], 5);
  EXPECT_THAT(data["findings"].dump(), HasSubstr("has 1 lines that are not"));
  const ToolResult missing = Run("report --json --file /no/such/file");
  EXPECT_EQ(missing.code, 2) << missing.err;
  EXPECT_THAT(missing.err, HasSubstr("/no/such/file"));
}

TEST_F(ToolReport, LimitsOfStepsAndOfTensors) {
  const Json data = RunJson("report --steps 2 --tensor-steps 0");
  EXPECT_EQ(data["all_steps"], 3);
  ASSERT_EQ(data["steps"].size(), 2);
  EXPECT_EQ(data["steps"][0]["step"], 200);
  EXPECT_THAT(data["tensors"], IsEmpty());
}

TEST_F(ToolReport, NeedsAName) {
  const ToolResult report = Run("report");
  EXPECT_EQ(report.code, 1) << report.err;
  EXPECT_THAT(report.err, HasSubstr("ckptdb report OUT.html"));
}

}  // namespace
}  // namespace ckptdb::testing
