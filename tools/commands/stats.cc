// SPDX-License-Identifier: Apache-2.0
// ckptdb stats: how saves went over time.
#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "CLI/App.hpp"
#include "absl/strings/str_cat.h"
#include "schema/status.h"
#include "tools/command.h"
#include "tools/format.h"
#include "tools/json.h"
#include "tools/open_store.h"
#include "tools/store_series.h"
#include "tools/text_table.h"
#include "tools/value_checks.h"

namespace ckptdb::tool {
namespace {

constexpr size_t kTrendWidth = 40;

struct ColumnSummary {
  std::string name;
  size_t count = 0;
  double min = 0;
  double median = 0;
  double max = 0;
  double last = 0;
  std::string trend;
};

std::vector<ColumnSummary> Summarize(const StoreSeries& series) {
  std::vector<ColumnSummary> columns;
  for (const std::string& name : series.columns) {
    std::vector<double> values = series.ValuesOf(name);
    if (values.empty()) continue;
    ColumnSummary column;
    column.name = name;
    column.count = values.size();
    column.last = values.back();
    column.trend = Sparkline(values, kTrendWidth);
    std::sort(values.begin(), values.end());
    column.min = values.front();
    column.median = values[values.size() / 2];
    column.max = values.back();
    columns.push_back(std::move(column));
  }
  return columns;
}

Json PointJson(const SavePoint& point) {
  Json json = {{"step", point.step}};
  json["attempt"] = point.attempt == 0 ? Json() : Json(point.attempt);
  json["at"] = FormatIsoUtc(point.at_micros);
  json["at_micros"] = point.at_micros;
  json["in_store"] = point.in_store;
  json["failed"] = point.failed;
  json["kind"] = ReasonJson(point.kind);
  json["saved_reason"] = ReasonJson(point.reason);
  json["values"] = MetricsJson(point.values);
  return json;
}

class StatsCommand : public Command {
 public:
  StatsCommand()
      : Command({.name = "stats",
                 .summary = "Show how long saves took and how much they wrote, "
                            "over time",
                 .notes =
                     "Reads the records of the steps in the store and, with\n"
                     "--file, the manager's statistics file (its option\n"
                     "statistics_path), which also has removed steps, failed\n"
                     "saves, and how long training was blocked.\n",
                 .examples = "  ckptdb stats -s /checkpoints/ctr\n"
                             "  ckptdb stats -s /checkpoints/ctr --file "
                             "saves.jsonl --last 100\n"}) {}
  void AddArguments(CLI::App* app) override {
    app->add_option("--file", file_, "statistics file of the manager")
        ->type_name("FILE");
    app->add_option("--last", last_, "only the last N saves")
        ->type_name("N")
        ->check(AtLeast(1));
  }
  absl::Status Run(const Context& context) override;

 private:
  void PrintText(const StoreSeries& series, std::ostream* out) const;
  Json Document(const Context& context, const StoreSeries& series) const;

  std::string file_;
  uint64_t last_ = 0;
};

void StatsCommand::PrintText(const StoreSeries& series,
                             std::ostream* out) const {
  const auto count = [&](bool SavePoint::*flag) {
    return std::count_if(series.points.begin(), series.points.end(),
                         [&](const SavePoint& point) { return point.*flag; });
  };
  *out << series.points.size() << " saves, " << count(&SavePoint::in_store)
       << " of them in the store, " << count(&SavePoint::failed) << " failed\n";
  if (series.points.empty()) return;
  *out << "from " << FormatUtc(series.points.front().at_micros) << " to "
       << FormatUtc(series.points.back().at_micros) << " UTC\n\n";
  TextTable table(
      {"COLUMN", ">SAVES", ">MIN", ">MEDIAN", ">MAX", ">LAST", "TREND"});
  for (const ColumnSummary& column : Summarize(series)) {
    table.AddRow({Printable(column.name), absl::StrCat(column.count),
                  ColumnText(column.name, column.min),
                  ColumnText(column.name, column.median),
                  ColumnText(column.name, column.max),
                  ColumnText(column.name, column.last), column.trend});
  }
  *out << table.ToString();
}

Json StatsCommand::Document(const Context& context,
                            const StoreSeries& series) const {
  Json json = {{"store", context.store},
               {"statistics_file", ReasonJson(file_)},
               {"skipped_lines", series.skipped_lines}};
  json["columns"] = Json::array();
  for (const ColumnSummary& column : Summarize(series)) {
    json["columns"].push_back({{"name", column.name},
                               {"saves", column.count},
                               {"min", NumberJson(column.min)},
                               {"median", NumberJson(column.median)},
                               {"max", NumberJson(column.max)},
                               {"last", NumberJson(column.last)}});
  }
  json["saves"] = Json::array();
  for (const SavePoint& point : series.points) {
    json["saves"].push_back(PointJson(point));
  }
  return json;
}

absl::Status StatsCommand::Run(const Context& context) {
  CKPTDB_ASSIGN_OR_RETURN(auto reader, OpenReader(context));
  CKPTDB_ASSIGN_OR_RETURN(StoreSeries series, LoadSeries(*reader, file_));
  auto& points = series.points;
  if (last_ > 0 && points.size() > last_) {
    points.erase(points.begin(), points.end() - static_cast<int64_t>(last_));
  }
  if (context.json) {
    PrintJson(Document(context, series), context.out);
    return absl::OkStatus();
  }
  PrintText(series, context.out);
  if (series.skipped_lines > 0) {
    context.PrintError(absl::DataLossError(
        absl::StrCat(file_, ": ", series.skipped_lines,
                     " lines are not statistics, and were skipped")));
  }
  return absl::OkStatus();
}

}  // namespace

std::unique_ptr<Command> NewStats() { return std::make_unique<StatsCommand>(); }

}  // namespace ckptdb::tool
