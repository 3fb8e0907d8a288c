// SPDX-License-Identifier: Apache-2.0
// Opens an object store in a bucket; internal to remote/.
#ifndef CKPTDB_REMOTE_S3_OPEN_S3_H_
#define CKPTDB_REMOTE_S3_OPEN_S3_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "remote/object_store.h"

namespace ckptdb::internal {

// Opens "s3://bucket/prefix?endpoint=URL&region=NAME"; docs/remote-s3.md lists
// the environment variables that it reads. Sends nothing: a bucket that does
// not exist, and missing credentials, are errors of the first call. Returns
// InvalidArgument for a URL or an option that is not valid.
absl::StatusOr<std::unique_ptr<ObjectStore>> OpenS3(
    absl::string_view url, const RemoteOptions& options);

// Loads the credentials for a URL, and returns where they come from and when
// they expire, but not the credentials: "the environment".
absl::StatusOr<std::string> DescribeS3Credentials(absl::string_view url,
                                                  const RemoteOptions& options);

}  // namespace ckptdb::internal

#endif  // CKPTDB_REMOTE_S3_OPEN_S3_H_
