// SPDX-License-Identifier: Apache-2.0
// The files ~/.aws/config and ~/.aws/credentials; private to remote/s3.
#ifndef CKPTDB_REMOTE_S3_AWS_PROFILE_H_
#define CKPTDB_REMOTE_S3_AWS_PROFILE_H_

#include <map>
#include <string>

#include "absl/status/statusor.h"

namespace ckptdb::internal::s3 {

// Returns an environment variable, "" if it is not set.
std::string EnvironmentOf(const char* name);

struct AwsProfile {
  std::string name;
  // Values by key. Those of the file of credentials override the other's.
  std::map<std::string, std::string> values = {};

  // Returns the value of a key, "" without one.
  std::string Value(const std::string& key) const;
};

// Reads the profile that AWS_PROFILE names, or "default", from the files that
// AWS_CONFIG_FILE and AWS_SHARED_CREDENTIALS_FILE name, or from those in
// ~/.aws. A missing file is an empty one. Returns FailedPrecondition if neither
// file contains the profile that AWS_PROFILE names. No error contains a value.
absl::StatusOr<AwsProfile> ReadAwsProfile();

}  // namespace ckptdb::internal::s3

#endif  // CKPTDB_REMOTE_S3_AWS_PROFILE_H_
