// SPDX-License-Identifier: Apache-2.0
// The data of a report about a store, as JSON.
#ifndef CKPTDB_TOOLS_REPORT_REPORT_DATA_H_
#define CKPTDB_TOOLS_REPORT_REPORT_DATA_H_

#include <cstdint>
#include <ostream>
#include <string>

#include "absl/status/statusor.h"
#include "db/reader.h"
#include "tools/json.h"

namespace ckptdb::tool {

struct ReportOptions {
  uint64_t max_steps = 1000;         // the newest ones
  uint64_t tensor_steps = 8;         // how many have their tensors read
  uint64_t tensor_bytes = 1 << 30;   // read for that at most
  std::string statistics_path;       // the manager's; empty: not read
  std::ostream* terminal = nullptr;  // for progress; may be null
};

// Returns the fields that docs/json.md lists under `report`. Steps that are
// removed meanwhile are left out. Errors of single steps are listed as
// findings.
absl::StatusOr<Json> ReportData(Reader* reader, const ReportOptions& options);

}  // namespace ckptdb::tool

#endif  // CKPTDB_TOOLS_REPORT_REPORT_DATA_H_
