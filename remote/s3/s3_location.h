// SPDX-License-Identifier: Apache-2.0
// Parses s3:// URLs; private to remote/s3.
#ifndef CKPTDB_REMOTE_S3_S3_LOCATION_H_
#define CKPTDB_REMOTE_S3_S3_LOCATION_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace ckptdb::internal::s3 {

struct S3Location {
  std::string name;  // the URL as given, for messages
  std::string bucket;
  std::string prefix;    // empty, or ends with '/'
  std::string base_url;  // the bucket's URL, without '/' at the end
  std::string region;
};

// Parses "s3://bucket/prefix?endpoint=URL&region=NAME". Without `endpoint` it
// is that of AWS_ENDPOINT_URL_S3, AWS_ENDPOINT_URL, or the profile, and
// otherwise Amazon's in the region. Without `region` it is that of AWS_REGION,
// AWS_DEFAULT_REGION or the profile, and otherwise us-east-1. Amazon's hosts
// have the bucket's name in front, unless it contains a dot; other endpoints
// have it in the path. Returns InvalidArgument for another URL, and for an
// endpoint with a user, which the message does not repeat.
absl::StatusOr<S3Location> ParseS3Url(absl::string_view url);

// Returns InvalidArgument unless `key` has parts of [A-Za-z0-9._-] separated
// by '/', of which none is empty, "." or "..".
absl::Status CheckKey(absl::string_view key);

}  // namespace ckptdb::internal::s3

#endif  // CKPTDB_REMOTE_S3_S3_LOCATION_H_
