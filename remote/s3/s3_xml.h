// SPDX-License-Identifier: Apache-2.0
// The documents that S3 and STS exchange; private to remote/s3.
//
// Each parser returns DataLoss if the text is not the document that it expects.
#ifndef CKPTDB_REMOTE_S3_S3_XML_H_
#define CKPTDB_REMOTE_S3_S3_XML_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "remote/object_store.h"
#include "remote/s3/credentials.h"

namespace ckptdb::internal::s3 {

struct ServiceError {
  std::string code;  // such as "NoSuchKey"; empty if the text is no error
  std::string message = {};
  std::string region = {};  // the bucket's, if the service names it
};
ServiceError ParseError(absl::string_view text);

struct ObjectPage {
  std::vector<ObjectInfo> objects;
  bool truncated = false;
  std::string last = {};  // the key after which the next page begins
};
absl::StatusOr<ObjectPage> ParseObjectPage(absl::string_view text);

struct UploadInfo {
  std::string key;
  std::string id;
  absl::Time initiated = {};
};
struct UploadPage {
  std::vector<UploadInfo> uploads;
  bool truncated = false;
  std::string next_key = {};
  std::string next_id = {};
};
absl::StatusOr<UploadPage> ParseUploadPage(absl::string_view text);

absl::StatusOr<std::string> ParseUploadId(absl::string_view text);

// The request that completes an upload: etags[i] is that of part i + 1.
std::string CompletionOf(absl::Span<const std::string> etags);

absl::StatusOr<Credentials> ParseWebIdentity(absl::string_view text);

}  // namespace ckptdb::internal::s3

#endif  // CKPTDB_REMOTE_S3_S3_XML_H_
