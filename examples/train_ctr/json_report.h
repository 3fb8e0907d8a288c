// SPDX-License-Identifier: Apache-2.0
// Writes the report of a run as a JSON object to a file, which replaces one of
// its name.
#ifndef CKPTDB_EXAMPLES_TRAIN_CTR_JSON_REPORT_H_
#define CKPTDB_EXAMPLES_TRAIN_CTR_JSON_REPORT_H_

#include <string>

#include "absl/status/status.h"
#include "train_ctr/follower.h"
#include "train_ctr/job.h"

namespace train_ctr {

// Returns InvalidArgument if the file cannot be written.
absl::Status CheckJsonPath(const std::string& path);

absl::Status WriteJson(const JobReport& report, const std::string& path);
absl::Status WriteJson(const FollowReport& report, const std::string& path);

}  // namespace train_ctr

#endif  // CKPTDB_EXAMPLES_TRAIN_CTR_JSON_REPORT_H_
