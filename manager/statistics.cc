#include "ckptdb/manager/statistics.h"

#include <fstream>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "ckptdb/schema/printable.h"

namespace ckptdb::internal {
namespace {

using JsonLine = nlohmann::ordered_json;

std::string OneLine(const JsonLine& json) {
  return PrintableJson(json.dump(-1, ' ', /*ensure_ascii=*/false,
                                 JsonLine::error_handler_t::replace));
}

}  // namespace

std::string StatisticsLine(const SaveReport& report) {
  const SaveResult& result = report.result;
  JsonLine line = {{"event", "save"},
                   {"step", report.step},
                   {"kind", std::string(SaveKindName(report.kind))},
                   {"why", report.why},
                   {"status", absl::StatusCodeToString(report.status.code())}};
  if (!report.status.ok()) {
    line["error"] = std::string(report.status.message());
  } else {
    line["attempt"] = result.version.attempt;
    line["saved_as"] = std::string(StepKindName(result.kind));
    line["raw_bytes"] = result.raw_bytes;
    line["stored_bytes"] = result.stored_bytes;
    line["reused_bytes"] = result.reused_bytes;
    line["commit_micros"] = result.commit_micros;
    line["retired"] = report.retired;
  }
  line["copied_bytes"] = report.copied_bytes;
  line["waited_micros"] = report.waited_micros;
  line["blocking_micros"] = report.blocking_micros;
  line["planning_micros"] = report.planning_micros;
  line["staged_micros"] = report.staged_micros;
  line["finished_micros"] = report.finished_micros;
  line["sweep_status"] = absl::StatusCodeToString(report.sweep_status.code());
  if (!report.sweep_status.ok()) {
    line["sweep_error"] = std::string(report.sweep_status.message());
  }
  line["unswept"] = report.unswept;
  return OneLine(line);
}

std::string StatisticsLine(const RestoreReport& report) {
  return OneLine({{"event", "restore"},
                  {"step", report.version.step},
                  {"attempt", report.version.attempt},
                  {"path", report.path},
                  {"damaged", report.damaged},
                  {"by_changes", report.by_changes},
                  {"bytes", report.bytes},
                  {"rows", report.rows},
                  {"open_micros", report.open_micros},
                  {"check_micros", report.check_micros},
                  {"load_micros", report.load_micros},
                  {"finished_micros", report.finished_micros}});
}

absl::Status CheckStatisticsPath(const std::string& path) {
  if (std::ofstream(path, std::ios::app)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("statistics_path \"", path, "\" cannot be written"));
}

}  // namespace ckptdb::internal
