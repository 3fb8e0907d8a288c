// SPDX-License-Identifier: Apache-2.0
#include "tools/store_series.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <fstream>
#include <set>
#include <tuple>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/time.h"
#include "nlohmann/json.hpp"
#include "schema/status.h"
#include "tools/format.h"
#include "tools/json.h"

namespace ckptdb::tool {
namespace {

using Line = nlohmann::json;
// A failed save has no attempt, so its place in the file distinguishes it.
using PointKey = std::pair<std::pair<int64_t, uint32_t>, size_t>;
using Points = std::map<PointKey, SavePoint>;

constexpr char kMetricPrefix[] = "metric ";

SavePoint PointOf(const StepRecord& record) {
  SavePoint point;
  point.step = record.version.step;
  point.attempt = record.version.attempt;
  point.order = StateOf(record).attempt;
  point.at_micros = record.committed_at_micros;
  point.in_store = true;
  point.kind = std::string(StepKindName(record.kind));
  point.reason = SavedReason(record);
  const auto set = [&](const char* name, auto value) {
    point.values[name] = static_cast<double>(value);
  };
  set("save_micros", record.save_micros);
  set("raw_bytes", record.raw_bytes);
  set("exclusive_bytes", record.exclusive_bytes);
  set("rows", record.rows);
  set("chain_length", record.chain.size());
  for (const auto& [name, value] : record.metrics) {
    point.values[kMetricPrefix + name] = value;
  }
  return point;
}

std::string TextOf(const Line& line, const char* name) {
  const auto found = line.find(name);
  return found != line.end() && found->is_string() ? found->get<std::string>()
                                                   : "";
}

void ReadValues(const Line& line, SavePoint* point) {
  for (const char* name :
       {"raw_bytes", "exclusive_bytes", "borrowed_bytes", "copied_bytes",
        "wait_micros", "blocking_micros", "planning_micros", "stage_micros",
        "commit_micros", "total_micros", "ship_lag_micros", "shipped_bytes"}) {
    const auto found = line.find(name);
    if (found == line.end() || !found->is_number()) continue;
    point->values.try_emplace(name, found->get<double>());
  }
  const auto metrics = line.find("metrics");
  if (metrics == line.end() || !metrics->is_object()) return;
  for (const auto& [name, value] : metrics->items()) {
    if (!value.is_number()) continue;
    point->values.try_emplace(kMetricPrefix + name, value.get<double>());
  }
}

// Returns false for a line that is not about a save, a restore or shipped
// steps. *order is that of the save in the lines before.
bool AddLine(const std::string& text, size_t number, uint32_t* order,
             Points* points) {
  const Line line = Line::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!line.is_object()) return false;
  const std::string event = TextOf(line, "event");
  if (event != "save") return event == "restore" || event == "ship";
  const auto step = line.find("step");
  absl::Time time;
  std::string error;
  if (step == line.end() || !step->is_number_integer() ||
      !absl::ParseTime(absl::RFC3339_full, TextOf(line, "time"), &time,
                       &error)) {
    return false;
  }
  const auto attempt = line.find("attempt");
  const bool failed = TextOf(line, "status") != "OK";
  SavePoint point;
  point.step = step->get<int64_t>();
  if (attempt != line.end() && attempt->is_number_unsigned()) {
    point.attempt = attempt->get<uint32_t>();
  }
  if (!failed) *order = point.attempt;
  point.order = *order;
  point.at_micros = absl::ToUnixMicros(time);
  point.failed = failed;
  point.kind = TextOf(line, "kind");
  const PointKey key = {{point.step, point.attempt}, failed ? number : 0};
  SavePoint& kept = points->try_emplace(key, std::move(point)).first->second;
  if (kept.reason.empty()) kept.reason = TextOf(line, "reason");
  ReadValues(line, &kept);
  return true;
}

absl::Status ReadStatistics(const std::string& path, Points* points,
                            StoreSeries* series) {
  std::ifstream file(path);
  if (!file) {
    return absl::NotFoundError(
        absl::StrCat("the statistics file \"", path, "\" cannot be read"));
  }
  std::string line;
  uint32_t first = 0;
  uint32_t order = 0;
  for (size_t number = 1; std::getline(file, line); ++number) {
    if (!AddLine(line, number, &order, points)) ++series->skipped_lines;
    if (first == 0) first = order;
  }
  // Failed saves at the beginning of the file come before its first save.
  for (auto& [key, point] : *points) {
    if (point.failed && point.order == 0 && first > 0) point.order = first - 1;
  }
  return absl::OkStatus();
}

}  // namespace

std::vector<double> StoreSeries::ValuesOf(const std::string& column) const {
  std::vector<double> values;
  for (const SavePoint& point : points) {
    const auto found = point.values.find(column);
    if (found == point.values.end() || !std::isfinite(found->second)) continue;
    values.push_back(found->second);
  }
  return values;
}

absl::StatusOr<StoreSeries> LoadSeries(const Reader& reader,
                                       const std::string& statistics_path) {
  StoreSeries series;
  Points points;
  for (const StepRecord& record : reader.Steps()) {
    points.try_emplace({{record.version.step, record.version.attempt}, 0},
                       PointOf(record));
  }
  if (!statistics_path.empty()) {
    CKPTDB_RETURN_IF_ERROR(ReadStatistics(statistics_path, &points, &series));
  }
  std::set<std::pair<bool, std::string>> columns;  // metrics last
  for (auto& [key, point] : points) {
    for (const auto& [name, value] : point.values) {
      columns.emplace(absl::StartsWith(name, kMetricPrefix), name);
    }
    series.points.push_back(std::move(point));
  }
  // By attempt, as the latest step is found, because the clock may have been
  // set back.
  std::stable_sort(series.points.begin(), series.points.end(),
                   [](const SavePoint& a, const SavePoint& b) {
                     return std::tie(a.order, a.failed) <
                            std::tie(b.order, b.failed);
                   });
  for (const auto& [metric, name] : columns) series.columns.push_back(name);
  return series;
}

std::string ColumnText(const std::string& column, double value) {
  const bool counts = std::isfinite(value) && value >= 0 && value < 1e18;
  if (counts && absl::EndsWith(column, "_micros")) {
    return FormatDuration(static_cast<int64_t>(value));
  }
  if (counts && absl::EndsWith(column, "_bytes")) {
    return FormatBytes(static_cast<uint64_t>(value));
  }
  if (counts && (column == "rows" || column == "chain_length")) {
    return FormatCount(static_cast<uint64_t>(value));
  }
  return absl::StrFormat("%.6g", value);
}

std::string Sparkline(const std::vector<double>& values, size_t width) {
  constexpr std::array<absl::string_view, 8> kBlocks = {"▁", "▂", "▃", "▄",
                                                        "▅", "▆", "▇", "█"};
  if (values.empty() || width == 0) return "";
  const size_t cells = std::min(width, values.size());
  std::vector<double> means(cells);
  for (size_t i = 0; i < cells; ++i) {
    const size_t begin = i * values.size() / cells;
    const size_t end = (i + 1) * values.size() / cells;
    for (size_t k = begin; k < end; ++k) {
      means[i] += values[k] / static_cast<double>(end - begin);
    }
  }
  const auto [low, high] = std::minmax_element(means.begin(), means.end());
  const double range = *high - *low;
  std::string line;
  for (const double mean : means) {
    const double part = range > 0 ? (mean - *low) / range : 0;
    const auto block = static_cast<size_t>(
        std::lround(part * static_cast<double>(kBlocks.size() - 1)));
    absl::StrAppend(&line, kBlocks[std::min(block, kBlocks.size() - 1)]);
  }
  return line;
}

}  // namespace ckptdb::tool
