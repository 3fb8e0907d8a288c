// SPDX-License-Identifier: Apache-2.0
// The results of `ckptdb doctor`, and their output.
#ifndef CKPTDB_TOOLS_DOCTOR_REPORT_H_
#define CKPTDB_TOOLS_DOCTOR_REPORT_H_

#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include "tools/doctor/checks.h"
#include "tools/doctor/mount.h"
#include "tools/doctor/speed.h"
#include "tools/json.h"

namespace ckptdb::tool {

struct Report {
  std::string folder;      // as given by the user; of a remote its URL
  bool is_remote = false;  // then there is no mount and no speed
  Mount mount;
  bool leads = true;               // false: another host has the results
  std::vector<std::string> hosts;  // this one first
  std::vector<CheckOutcome> checks;
  std::optional<Speed> speed;
};

// Returns the checks with `result`, by name and peer: "lock with host2".
std::vector<std::string> ChecksOf(const Report& report, CheckResult result);

Json ReportJson(const Report& report);
void PrintReport(const Report& report, std::ostream* out);

}  // namespace ckptdb::tool

#endif  // CKPTDB_TOOLS_DOCTOR_REPORT_H_
