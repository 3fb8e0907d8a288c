#include "ckptdb/manager/statistics.h"

#include <fstream>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"

namespace ckptdb::internal {

std::string StatisticsLine(const SaveReport& report) {
  const SaveResult& result = report.result;
  nlohmann::ordered_json line = {
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
  return line.dump(-1, ' ', /*ensure_ascii=*/false,
                   nlohmann::ordered_json::error_handler_t::replace);
}

absl::Status CheckStatisticsPath(const std::string& path) {
  if (std::ofstream(path, std::ios::app)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("statistics_path \"", path, "\" cannot be written"));
}

void AppendStatistics(const std::string& path, const SaveReport& report) {
  std::ofstream(path, std::ios::app) << StatisticsLine(report) << '\n';
}

}  // namespace ckptdb::internal
