// SPDX-License-Identifier: Apache-2.0
#include "manager/config/statistics.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "schema/types.h"

namespace ckptdb::internal {
namespace {

using JsonLine = nlohmann::ordered_json;

std::string OneLine(const JsonLine& json) {
  return PrintableJson(json.dump(-1, ' ', /*ensure_ascii=*/false,
                                 JsonLine::error_handler_t::replace));
}

// JSON has neither NaN nor infinities, so these become strings.
JsonLine NumberJson(double number) {
  if (std::isfinite(number)) return number;
  if (std::isnan(number)) return "nan";
  return number > 0 ? "inf" : "-inf";
}

JsonLine MetricsJson(const Metrics& metrics) {
  JsonLine json = JsonLine::object();
  for (const auto& [name, value] : metrics) json[name] = NumberJson(value);
  return json;
}

std::string HostName() {
  std::array<char, 256> name{};
  if (::gethostname(name.data(), name.size() - 1) != 0) return "unknown";
  return name.data();
}

// The first fields of each line. A file may contain lines of several runs and
// processes.
JsonLine BeginLine(absl::string_view event) {
  constexpr char kFormat[] = "%Y-%m-%dT%H:%M:%E6SZ";
  return {{"event", std::string(event)},
          {"time", absl::FormatTime(kFormat, absl::Now(), absl::UTCTimeZone())},
          {"host", HostName()},
          {"pid", ::getpid()}};
}

// O_NONBLOCK keeps a pipe without a reader from blocking a save.
int OpenToAppend(const std::string& path) {
  constexpr mode_t kMode = 0666;  // minus the umask
  return ::open(path.c_str(),
                O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NONBLOCK, kMode);
}

// Returns whether the last line of the file, open as `fd`, is incomplete, which
// a crash can cause. Returns false for pipes and files that cannot be read.
bool EndsWithinLine(const std::string& path, int fd) {
  struct stat file = {};
  if (::fstat(fd, &file) != 0 || !S_ISREG(file.st_mode)) return false;
  if (file.st_size == 0) return false;
  const int reader = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (reader < 0) return false;
  char last = '\n';
  const bool read = ::pread(reader, &last, 1, file.st_size - 1) == 1;
  ::close(reader);
  return read && last != '\n';
}

void AddShipping(const ShippingStatistics& shipping, JsonLine* line) {
  (*line)["ship_waiting"] = shipping.waiting;
  (*line)["ship_lag_micros"] = absl::ToInt64Microseconds(shipping.lag);
  (*line)["shipped_bytes"] = shipping.shipped_bytes;
  (*line)["ship_status"] = absl::StatusCodeToString(shipping.last_error.code());
  if (shipping.last_error.ok()) return;
  (*line)["ship_error"] = std::string(shipping.last_error.message());
}

}  // namespace

// docs/json.md documents the fields. The line of a failed save lacks the fields
// of a committed step.
std::string StatisticsLine(const SaveReport& report) {
  const SaveResult& result = report.result;
  JsonLine line = BeginLine("save");
  line["step"] = report.step;
  line["save_kind"] = std::string(SaveKindName(report.save_kind));
  line["reason"] = report.reason;
  line["metrics"] = MetricsJson(report.metrics);
  line["status"] = absl::StatusCodeToString(report.status.code());
  if (!report.status.ok()) {
    line["error"] = std::string(report.status.message());
  } else {
    line["attempt"] = result.version.attempt;
    line["kind"] = std::string(StepKindName(result.kind));
    line["raw_bytes"] = result.raw_bytes;
    line["exclusive_bytes"] = result.exclusive_bytes;
    line["borrowed_bytes"] = result.borrowed_bytes;
    line["commit_micros"] = result.commit_micros;
    line["retired_steps"] = report.retired_steps;
  }
  line["copied_bytes"] = report.copied_bytes;
  line["wait_micros"] = report.wait_micros;
  line["blocking_micros"] = report.blocking_micros;
  line["planning_micros"] = report.planning_micros;
  line["stage_micros"] = report.stage_micros;
  line["total_micros"] = report.total_micros;
  line["sweep_status"] = absl::StatusCodeToString(report.sweep_status.code());
  if (!report.sweep_status.ok()) {
    line["sweep_error"] = std::string(report.sweep_status.message());
  }
  line["unswept_entries"] = report.unswept_entries;
  if (report.shipping.has_value()) AddShipping(*report.shipping, &line);
  return OneLine(line);
}

std::string StatisticsLine(const RestoreReport& report) {
  JsonLine line = BeginLine("restore");
  line["step"] = report.version.step;
  line["attempt"] = report.version.attempt;
  line["store"] = report.store;
  line["metrics"] = MetricsJson(report.record.metrics);
  line["damaged_steps"] = report.damaged_steps;
  line["incremental"] = report.incremental;
  line["loaded_bytes"] = report.loaded_bytes;
  line["loaded_rows"] = report.loaded_rows;
  line["open_micros"] = report.open_micros;
  line["check_micros"] = report.check_micros;
  line["load_micros"] = report.load_micros;
  line["total_micros"] = report.total_micros;
  return OneLine(line);
}

std::string StatisticsLine(const ShipReport& report) {
  JsonLine line = BeginLine("ship");
  line["steps"] = report.steps;
  line["data_files"] = report.data_files;
  line["data_bytes"] = report.data_bytes;
  line["lag_micros"] = absl::ToInt64Microseconds(report.lag);
  return OneLine(line);
}

// Appends the line with one write, so that lines of several processes do not
// mix. A partly written line is not completed but ended with a newline, so that
// the next one starts on a new line, and the error reports that it is lost.
absl::Status AppendLine(const std::string& path, std::string line) {
  line += '\n';
  const int fd = OpenToAppend(path);
  const ssize_t written = fd < 0 ? -1 : ::write(fd, line.data(), line.size());
  const std::string reason =
      written < 0 ? std::strerror(errno)
                  : absl::StrCat(written, " of ", line.size(),
                                 " bytes were written; the disk may be full");
  const bool complete = written == static_cast<ssize_t>(line.size());
  const bool ended = complete || written <= 0 || ::write(fd, "\n", 1) == 1;
  if (fd >= 0) ::close(fd);
  if (complete) return absl::OkStatus();
  return absl::UnavailableError(absl::StrCat(
      "statistics_path \"", path, "\": a line is lost",
      ended ? "" : "; the next one begins on the same line", ": ", reason));
}

// Creates the file when the manager is opened, so that an unwritable path is an
// error then, rather than a warning days later. Without the newline the first
// line of this run would continue the incomplete one, and both would be lost.
absl::Status CheckStatisticsPath(const std::string& path) {
  const int fd = OpenToAppend(path);
  if (fd < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("statistics_path \"", path,
                     "\" cannot be written: ", std::strerror(errno),
                     "; name a file in a folder that exists and is writable"));
  }
  // On a full disk this fails, and so does the next line, which warns.
  const bool ended = !EndsWithinLine(path, fd) || ::write(fd, "\n", 1) == 1;
  static_cast<void>(ended);
  ::close(fd);
  return absl::OkStatus();
}

}  // namespace ckptdb::internal
