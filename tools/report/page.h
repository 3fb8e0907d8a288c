// SPDX-License-Identifier: Apache-2.0
// The page of a report, which works without a network: the files page.html and
// page.js of this folder, and Chart.js, are part of the program.
#ifndef CKPTDB_TOOLS_REPORT_PAGE_H_
#define CKPTDB_TOOLS_REPORT_PAGE_H_

#include <string>

#include "absl/status/status.h"
#include "tools/json.h"

namespace ckptdb::tool {

// Writes the page that shows the data to a file, which appears under its name
// when it is whole. Returns AlreadyExists if the file exists, unless `replace`
// is set, InvalidArgument for a path within the store, and Unimplemented if
// ckptdb was built without Chart.js.
absl::Status WriteReport(const Json& data, const std::string& path,
                         bool replace);

}  // namespace ckptdb::tool

#endif  // CKPTDB_TOOLS_REPORT_PAGE_H_
