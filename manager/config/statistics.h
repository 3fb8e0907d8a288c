// Writes the log of what saves and restores cost; internal to manager/.
#ifndef CKPTDB_MANAGER_CONFIG_STATISTICS_H_
#define CKPTDB_MANAGER_CONFIG_STATISTICS_H_

#include <string>

#include "absl/status/status.h"
#include "ckptdb/manager/checkpoint_manager.h"

namespace ckptdb::internal {

// Returns one line of JSON: "event" is "save", then "step", "kind", "why",
// "status", "error", "attempt", "retired", bytes, times in microseconds,
// "sweep_status", "sweep_error" and "unswept" as in SaveReport.
std::string StatisticsLine(const SaveReport& report);
// Returns one line of JSON: "event" is "restore", then "step", "attempt",
// "path", "damaged", "by_changes", and the rest as in RestoreReport.
std::string StatisticsLine(const RestoreReport& report);

// Returns InvalidArgument when nothing can be appended to the file.
absl::Status CheckStatisticsPath(const std::string& path);

// Appends a line without waiting for the reader of a pipe. Unavailable, naming
// the file, when the line was not written as a whole.
absl::Status AppendLine(const std::string& path, std::string line);

// Appends a line to a file, if there is to be one. A log that cannot be written
// is no reason to fail a save: what is missing there is in the report.
template <typename Report>
absl::Status AppendStatistics(const std::string& path, const Report& report) {
  if (path.empty()) return absl::OkStatus();
  return AppendLine(path, StatisticsLine(report));
}

}  // namespace ckptdb::internal

#endif  // CKPTDB_MANAGER_CONFIG_STATISTICS_H_
