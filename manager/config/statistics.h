// SPDX-License-Identifier: Apache-2.0
// The log of the costs of saves and restores; internal to manager/.
#ifndef CKPTDB_MANAGER_CONFIG_STATISTICS_H_
#define CKPTDB_MANAGER_CONFIG_STATISTICS_H_

#include <string>

#include "absl/status/status.h"
#include "manager/results.h"

namespace ckptdb::internal {

// Returns one line of JSON about a save, a restore or shipped steps, without
// the newline.
// docs/json.md names the fields, which a test compares.
std::string StatisticsLine(const SaveReport& report);
std::string StatisticsLine(const RestoreReport& report);
std::string StatisticsLine(const ShipReport& report);

// Returns InvalidArgument if the file cannot be appended to. Ends a line that
// an earlier process has left incomplete.
absl::Status CheckStatisticsPath(const std::string& path);

// Returns Unavailable, naming the file, if the line could not be written
// completely. A pipe without a reader does not block the call.
absl::Status AppendLine(const std::string& path, std::string line);

// Appends a line unless `path` is empty. The caller reports an error as a
// warning: a save does not fail because its statistics cannot be written.
template <typename Report>
absl::Status AppendStatistics(const std::string& path, const Report& report) {
  if (path.empty()) return absl::OkStatus();
  return AppendLine(path, StatisticsLine(report));
}

}  // namespace ckptdb::internal

#endif  // CKPTDB_MANAGER_CONFIG_STATISTICS_H_
