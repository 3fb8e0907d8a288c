// SPDX-License-Identifier: Apache-2.0
// The page of a report, which works without a network: the files page.html and
// page.js of this folder, and Chart.js, are part of the program.
#ifndef CKPTDB_TOOLS_REPORT_PAGE_H_
#define CKPTDB_TOOLS_REPORT_PAGE_H_

#include <string>

#include "absl/status/statusor.h"
#include "tools/json.h"

namespace ckptdb::tool {

// Returns the page that shows the data. Returns Unimplemented if ckptdb was
// built without Chart.js.
absl::StatusOr<std::string> ReportPage(const Json& data);

}  // namespace ckptdb::tool

#endif  // CKPTDB_TOOLS_REPORT_PAGE_H_
