// SPDX-License-Identifier: Apache-2.0
#include "tools/doctor/report.h"

#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "schema/types.h"
#include "tools/format.h"
#include "tools/text_table.h"

namespace ckptdb::tool {
namespace {

// Returns "lock with host2", or "hard_link" for a check of one process.
std::string NameOf(const CheckOutcome& check) {
  if (check.host.empty()) return check.name;
  return absl::StrCat(check.name, " with ", Printable(check.host));
}

std::string Rate(double bytes_per_second) {
  return absl::StrFormat("%.0f MB/s", bytes_per_second / 1e6);
}

// Printed below the table of all checks, because these texts are long and few.
void PrintConsequences(const Report& report, std::ostream* out) {
  for (const CheckOutcome& check : report.checks) {
    if (check.result == CheckResult::kOk) continue;
    *out << '\n'
         << CheckResultText(check.result) << ": " << NameOf(check) << "\n  "
         << Printable(check.consequence) << '\n';
  }
}

void PrintSpeed(const Speed& speed, std::ostream* out) {
  TextTable table({"", ">"});
  table.AddRow({absl::StrCat("write and fsync ", FormatBytes(speed.bytes)),
                Rate(speed.write_bytes_per_second)});
  for (const Speed::Read& read : speed.reads) {
    table.AddRow({read.host.empty()
                      ? "read it here"
                      : absl::StrCat("read it on ", Printable(read.host)),
                  Rate(read.bytes_per_second)});
  }
  const auto both = [](int64_t p50, int64_t p99) {
    return absl::StrCat(FormatDuration(p50), ", ", FormatDuration(p99));
  };
  table.AddRow({"append and fsync 4 KiB, p50 and p99",
                both(speed.sync_p50_micros, speed.sync_p99_micros)});
  table.AddRow({"replace a file durably, p50 and p99",
                both(speed.replace_p50_micros, speed.replace_p99_micros)});
  *out << '\n' << table.ToString();
}

// docs/json.md specifies null for missing texts.
Json TextOrNull(const std::string& text) {
  return text.empty() ? Json() : Json(text);
}

int64_t Whole(double number) { return std::llround(number); }

Json SpeedJson(const Speed& speed) {
  Json json = {{"written_bytes", speed.bytes},
               {"write_bytes_per_second", Whole(speed.write_bytes_per_second)},
               {"sync_p50_micros", speed.sync_p50_micros},
               {"sync_p99_micros", speed.sync_p99_micros},
               {"replace_p50_micros", speed.replace_p50_micros},
               {"replace_p99_micros", speed.replace_p99_micros}};
  json["reads"] = Json::array();
  for (const Speed::Read& read : speed.reads) {
    json["reads"].push_back(
        {{"peer", TextOrNull(read.host)},
         {"read_bytes_per_second", Whole(read.bytes_per_second)}});
  }
  return json;
}

}  // namespace

std::vector<std::string> ChecksOf(const Report& report, CheckResult result) {
  std::vector<std::string> names;
  for (const CheckOutcome& check : report.checks) {
    if (check.result == result) names.push_back(NameOf(check));
  }
  return names;
}

Json ReportJson(const Report& report) {
  Json json = {{"folder", report.folder},
               {"file_system", report.mount.type},
               {"source", report.mount.source},
               {"leads", report.leads},
               {"hosts", report.hosts},
               {"safe", ChecksOf(report, CheckResult::kUnsafe).empty()}};
  json["checks"] = Json::array();
  for (const CheckOutcome& check : report.checks) {
    json["checks"].push_back({{"check", check.name},
                              {"peer", TextOrNull(check.host)},
                              {"result", CheckResultText(check.result)},
                              {"observed", check.observed},
                              {"consequence", TextOrNull(check.consequence)}});
  }
  json["speed"] = report.speed.has_value() ? SpeedJson(*report.speed) : Json();
  return json;
}

namespace {

// Says what follows if no check found anything unsafe.
void PrintVerdict(const Report& report, std::ostream* out) {
  *out << '\n';
  if (ChecksOf(report, CheckResult::kUnsafe).empty()) {
    *out << (report.is_remote
                 ? "Steps can be shipped here: these checks found nothing "
                   "unsafe.\n"
                 : "A store can be put here: these checks found nothing "
                   "unsafe.\n");
  }
  if (report.hosts.size() == 1 && !report.is_remote) {
    *out << "Checked from one host. If several hosts will use the store, run "
            "the command on\neach of them with the same --hosts and "
            "--session.\n";
  }
}

}  // namespace

void PrintReport(const Report& report, std::ostream* out) {
  *out << Printable(report.folder) << ": ";
  if (!report.is_remote) {
    *out << Printable(report.mount.type) << " of "
         << Printable(report.mount.source) << ", ";
  }
  *out << "checked from " << Printable(absl::StrJoin(report.hosts, ", "))
       << "\n\n";
  TextTable table({"CHECK", "WITH", "RESULT", "OBSERVED"});
  for (const CheckOutcome& check : report.checks) {
    table.AddRow({check.name, check.host.empty() ? "-" : Printable(check.host),
                  CheckResultText(check.result), Printable(check.observed)});
  }
  *out << table.ToString();
  PrintConsequences(report, out);
  if (report.speed.has_value()) PrintSpeed(*report.speed, out);
  PrintVerdict(report, out);
}

}  // namespace ckptdb::tool
