// SPDX-License-Identifier: Apache-2.0
#include "bench/report.h"

#include <algorithm>
#include <array>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "nlohmann/json.hpp"

namespace ckptdb::bench {
namespace {

constexpr double kBytesPerGb = 1e9;
constexpr size_t kColumns = 8;
using Row = std::array<std::string, kColumns>;

// Digits for a microsecond as for a minute.
std::string Seconds(const Summary& seconds) {
  return absl::StrFormat("%.3g (%.3g - %.3g)", seconds.median, seconds.min,
                         seconds.max);
}

Row Heading() {
  return {"case",  "GB",       "seconds (min - max)", "raw seconds",
          "ratio", "CPU s/GB", "raw CPU s/GB",        "raw is"};
}

Row ToRow(const CaseResult& result) {
  return {
      result.name,
      absl::StrFormat("%.3f", static_cast<double>(result.bytes) / kBytesPerGb),
      Seconds(result.seconds),
      Seconds(result.raw_seconds),
      absl::StrFormat("%.3f", result.ratio()),
      absl::StrFormat("%.3f", result.cpu_seconds_per_gb()),
      absl::StrFormat("%.3f", result.raw_cpu_seconds_per_gb()),
      result.raw_variant};
}

std::string Align(absl::Span<const Row> rows) {
  std::array<size_t, kColumns> widths{};
  for (const Row& row : rows) {
    for (size_t i = 0; i < kColumns; ++i) {
      widths[i] = std::max(widths[i], row[i].size());
    }
  }
  std::string text;
  for (const Row& row : rows) {
    std::string line;
    for (size_t i = 0; i < kColumns; ++i) {
      absl::StrAppend(&line, row[i],
                      std::string(widths[i] - row[i].size() + 2, ' '));
    }
    line.erase(line.find_last_not_of(' ') + 1);
    absl::StrAppend(&text, line, "\n");
  }
  return text;
}

std::string Details(const CaseResult& result) {
  std::string text = absl::StrCat("\n", result.name, "\n");
  for (const Figure& variant : result.raw_variants) {
    absl::StrAppendFormat(&text, "  raw: %s: %.4g s\n", variant.name,
                          variant.value);
  }
  for (const Figure& figure : result.figures) {
    absl::StrAppendFormat(&text, "  %s: %.6g\n", figure.name, figure.value);
  }
  for (const Goal& goal : result.goals) {
    absl::StrAppendFormat(&text, "  goal: %s %.4g %s %.6g: %s\n", goal.name,
                          goal.value, goal.at_least ? ">=" : "<=", goal.limit,
                          goal.met() ? "met" : "MISSED");
  }
  return text;
}

nlohmann::ordered_json ToJson(const Goal& goal) {
  return {{"name", goal.name},
          {"value", goal.value},
          {goal.at_least ? "at_least" : "at_most", goal.limit},
          {"met", goal.met()}};
}

void AddSummary(const std::string& name, const Summary& summary,
                nlohmann::ordered_json* object) {
  (*object)[name] = summary.median;
  (*object)[name + "_min"] = summary.min;
  (*object)[name + "_max"] = summary.max;
}

nlohmann::ordered_json ToJson(const CaseResult& result) {
  nlohmann::ordered_json object;
  object["name"] = result.name;
  object["bytes"] = result.bytes;
  object["repetitions"] = result.repetitions;
  AddSummary("seconds", result.seconds, &object);
  AddSummary("raw_seconds", result.raw_seconds, &object);
  object["ratio"] = result.ratio();
  object["cpu_seconds_per_gb"] = result.cpu_seconds_per_gb();
  object["raw_cpu_seconds_per_gb"] = result.raw_cpu_seconds_per_gb();
  object["raw_variant"] = result.raw_variant;
  for (const Figure& variant : result.raw_variants) {
    object["raw_variants"][variant.name] = variant.value;
  }
  for (const Figure& figure : result.figures) {
    object[figure.name] = figure.value;
  }
  object["goals"] = nlohmann::ordered_json::array();
  for (const Goal& goal : result.goals) {
    object["goals"].push_back(ToJson(goal));
  }
  return object;
}

}  // namespace

double PerGb(double value, uint64_t bytes) {
  return bytes == 0 ? 0 : value * kBytesPerGb / static_cast<double>(bytes);
}

double CaseResult::cpu_seconds_per_gb() const {
  return PerGb(cpu_seconds.median, bytes);
}

double CaseResult::raw_cpu_seconds_per_gb() const {
  return PerGb(raw_cpu_seconds.median, bytes);
}

CaseResult Compare(std::string name, uint64_t bytes,
                   absl::Span<const Outcome> outcomes) {
  CaseResult result;
  result.name = std::move(name);
  result.bytes = bytes;
  result.repetitions = static_cast<int>(outcomes[0].samples.size());
  result.seconds = SecondsOf(outcomes[0]);
  result.cpu_seconds = CpuSecondsOf(outcomes[0]);
  for (const Outcome& raw : outcomes.subspan(1)) {
    const Summary seconds = SecondsOf(raw);
    result.raw_variants.push_back({raw.name, seconds.median});
    if (!result.raw_variant.empty() &&
        seconds.median >= result.raw_seconds.median) {
      continue;
    }
    result.raw_variant = raw.name;
    result.raw_seconds = seconds;
    result.raw_cpu_seconds = CpuSecondsOf(raw);
  }
  return result;
}

std::string Report::Text() const {
  std::vector<Row> rows = {Heading()};
  std::string details;
  for (const CaseResult& result : results_) {
    rows.push_back(ToRow(result));
    absl::StrAppend(&details, Details(result));
  }
  return Align(rows) + details;
}

std::string Report::Json() const {
  std::string lines;
  for (const CaseResult& result : results_) {
    absl::StrAppend(&lines, ToJson(result).dump(), "\n");
  }
  return lines;
}

}  // namespace ckptdb::bench
