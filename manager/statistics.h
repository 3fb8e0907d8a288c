// The log of what saves cost; internal to manager/.
#ifndef CKPTDB_MANAGER_STATISTICS_H_
#define CKPTDB_MANAGER_STATISTICS_H_

#include <string>

#include "absl/status/status.h"
#include "ckptdb/manager/checkpoint_manager.h"

namespace ckptdb::internal {

// One line of JSON: "step", "kind", "why", "status", "error", "attempt",
// "retired", bytes, and times in microseconds as in SaveReport.
std::string StatisticsLine(const SaveReport& report);

// InvalidArgument when nothing can be appended to the file.
absl::Status CheckStatisticsPath(const std::string& path);

// Appends it to a file. A log that cannot be written is no reason to fail a
// save: what is missing there is in the report.
void AppendStatistics(const std::string& path, const SaveReport& report);

}  // namespace ckptdb::internal

#endif  // CKPTDB_MANAGER_STATISTICS_H_
