// SPDX-License-Identifier: Apache-2.0
// Puts a large file in parts; private to remote/s3.
#ifndef CKPTDB_REMOTE_S3_MULTIPART_PUT_H_
#define CKPTDB_REMOTE_S3_MULTIPART_PUT_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "remote/s3/s3_client.h"

namespace ckptdb::internal::s3 {

// A file is put in parts if it is longer than this.
inline constexpr uint64_t kMinPartBytes = uint64_t{16} << 20;
inline constexpr uint64_t kMaxParts = 10'000;

// Returns the size of all parts but the last, which may be shorter.
uint64_t PartBytesOf(uint64_t file_bytes);

struct MultipartPut {
  std::string key;                   // in the bucket
  std::vector<std::string> headers;  // the object's
  FilePart file;
  int connections = 1;
  absl::Duration deadline;  // for each request with its retries
};

// Uploads the parts, then completes the upload on the condition that the key
// does not exist. Returns AlreadyExists if it does, and Aborted if the upload
// no longer exists: either it was aborted, or an earlier attempt completed it
// and the response was lost; the object's token shows which. After other
// errors, aborts the upload unless it may have completed.
absl::Status PutInParts(const MultipartPut& put, S3Client* client);

}  // namespace ckptdb::internal::s3

#endif  // CKPTDB_REMOTE_S3_MULTIPART_PUT_H_
