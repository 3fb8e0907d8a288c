// SPDX-License-Identifier: Apache-2.0
// ckptdb stats and watch.
#include <chrono>
#include <condition_variable>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <regex>
#include <string>
#include <thread>

#include "manager/config/statistics.h"
#include "tests/tools/store_bytes.h"
#include "tests/tools/tool_fixture.h"
#include "tools/store_series.h"

namespace ckptdb::testing {
namespace {

class ToolStats : public ToolFixture {
 protected:
  std::string file() const { return dir_.path() + "/saves.jsonl"; }
  std::string page() const { return dir_.path() + "/page.html"; }

  // A save that is still in the store, a removed one, one that failed, a
  // restore, and a torn line.
  void WriteStatistics() const {
    std::ofstream out(file());
    SaveReport report;
    report.step = 100;
    report.result.version = {100, 1};
    report.blocking_micros = 1500;
    out << internal::StatisticsLine(report) << '\n';
    report.step = 50;
    report.result.version = {50, 9};
    report.blocking_micros = 2500;
    report.metrics = {{"auc", 0.5}};
    out << internal::StatisticsLine(report) << '\n';
    report.status = absl::UnavailableError("no space");
    out << internal::StatisticsLine(report) << '\n';
    out << internal::StatisticsLine(RestoreReport()) << '\n';
    out << "{\"event\": \"sa";
  }
  static Json Column(const Json& stats, const std::string& name) {
    for (const auto& column : stats["columns"]) {
      if (column["name"] == name) return column;
    }
    return Json();
  }
  static std::string Read(const std::string& path) {
    std::ifstream in(path);
    return {std::istreambuf_iterator<char>(in), {}};
  }
};

TEST_F(ToolStats, SummarizesTheStore) {
  const auto before = BytesBelow(path());
  const Json stats = RunJson("stats");
  EXPECT_EQ(BytesBelow(path()), before);
  EXPECT_EQ(stats["saves"].size(), 3);
  EXPECT_THAT(Column(stats, "rows"),
              Includes(R"({"saves": 3, "min": 1000, "median": 1200,
                           "max": 1500, "last": 1500})"));
  EXPECT_EQ(stats["statistics_file"], Json());
  ExpectPrints("stats",
               ContainsAll("3 saves, 3 of them in the store",
                           "rows +3 +1,000 +1,200 +1,500 +1,500", "▁.*█"));
}

TEST_F(ToolStats, ShowsTheLagOfShipping) {
  SaveReport report;
  report.step = 100;
  report.result.version = {100, 1};
  report.shipping.emplace();
  report.shipping->lag = absl::Seconds(5);
  report.shipping->shipped_bytes = 7;
  ShipReport shipped;
  shipped.steps = {100};
  std::ofstream(file()) << internal::StatisticsLine(report) << '\n'
                        << internal::StatisticsLine(shipped) << '\n';
  const Json stats = RunJson("stats --file " + file());
  EXPECT_EQ(stats["skipped_lines"], 0);
  EXPECT_THAT(Column(stats, "ship_lag_micros"),
              Includes(R"({"saves": 1, "last": 5000000})"));
  EXPECT_THAT(Column(stats, "shipped_bytes"), Includes(R"({"last": 7})"));
}

TEST_F(ToolStats, AddsTheStatisticsFile) {
  WriteStatistics();
  const Json stats = RunJson("stats --file " + file());
  EXPECT_EQ(stats["saves"].size(), 5);
  EXPECT_EQ(stats["skipped_lines"], 1);
  EXPECT_THAT(Column(stats, "blocking_micros"),
              Includes(R"({"saves": 3, "min": 1500, "max": 2500})"));
  ExpectRun("stats --last 2 --file " + file(), 0,
            HasSubstr("2 saves, 0 of them in the store, 1 failed"),
            HasSubstr("1 lines are not statistics"));
  ExpectFails("stats --file " + file() + "x", 2, HasSubstr("cannot be read"));
}

// The order of saves is that by which a step is the latest.
TEST_F(ToolStats, OrdersByAttempt_WhenTheClockWasSetBack) {
  SaveReport report;
  report.step = 50;
  report.result.version = {50, 9};
  const auto before_the_others = [&] {
    return std::regex_replace(internal::StatisticsLine(report),
                              std::regex(R"("time":"[^"]*")"),
                              R"("time":"2001-02-03T04:05:06Z")") +
           "\n";
  };
  const std::string saved = before_the_others();
  report.status = absl::UnavailableError("no space");
  const std::string failed = before_the_others();
  std::ofstream(file()) << failed << saved << failed;
  const Json stats = RunJson("stats --file " + file());
  std::vector<std::pair<int64_t, bool>> order;
  for (const auto& save : stats["saves"]) {
    order.emplace_back(save["step"], save["failed"]);
  }
  EXPECT_THAT(order,
              ElementsAre(Pair(100, false), Pair(200, false), Pair(300, false),
                          Pair(50, true), Pair(50, false), Pair(50, true)));
}

TEST_F(ToolStats, OfAnEmptyStore) {
  const std::string empty = dir_.path() + "/empty";
  ASSERT_OK(Store::Open(empty).status());
  const ToolResult stats = RunLine("stats -s " + empty);
  EXPECT_EQ(stats.code, 0);
  EXPECT_THAT(stats.out, StartsWith("0 saves"));
  EXPECT_EQ(RunLine("watch --count 1 -s " + empty).out, "");
}

TEST_F(ToolStats, WatchesAStoreWhosePathIsNotUtf8) {
  const std::string other = dir_.path() + "/\xff";
  ASSERT_OK(Store::Open(other).status());
  const ToolResult watched = RunLine("watch --count 1 --json -s " + other);
  EXPECT_EQ(watched.code, 0) << watched.err;
  EXPECT_EQ(watched.Json()["store"], dir_.path() + "/\xef\xbf\xbd");
}

TEST(SparklineTest, DrawsTheMeansOfItsParts) {
  EXPECT_EQ(tool::Sparkline({0, 7, 3.5}, 10), "▁█▅");
  EXPECT_EQ(tool::Sparkline({5, 5}, 10), "▁▁");
  EXPECT_EQ(tool::Sparkline({1, 1, 9, 9}, 2), "▁█");
  EXPECT_EQ(tool::Sparkline({}, 10), "");
}

TEST_F(ToolStats, WatchPrintsWhatChanges) {
  const auto before = BytesBelow(path());
  ExpectPrints("watch --count 1",
               ContainsAll("step 100 full", "step 300 full .* 1,500 rows"));
  EXPECT_EQ(BytesBelow(path()), before);
  Own();
  // Started with three steps; one is removed while it watches.
  ToolSetting setting;
  setting.kill_after = std::chrono::seconds(2);
  setting.signal = SIGINT;
  std::thread remover([this] {
    std::mutex mutex;
    std::unique_lock<std::mutex> lock(mutex);
    std::condition_variable().wait_for(lock, std::chrono::milliseconds(700));
    EXPECT_OK(store_->Delete(100));
  });
  const ToolResult watched =
      RunTool({"watch", "--interval", "0.1", "-s", path()}, setting);
  remover.join();
  Disown();
  EXPECT_EQ(watched.code, 0) << watched.err;
  EXPECT_THAT(watched.out, HasSubstr("step 100 attempt 1 is no longer a step"));
  EXPECT_EQ(Run("watch --interval 0").code, 1);
}

}  // namespace
}  // namespace ckptdb::testing
