// SPDX-License-Identifier: Apache-2.0
#include "remote/s3/multipart_put.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "db/base/parallel.h"
#include "remote/s3/s3_xml.h"
#include "schema/status.h"

namespace ckptdb::internal::s3 {

namespace {

// A failed upload that is not aborted within this time is left to AbortUploads.
constexpr absl::Duration kAbortDeadline = absl::Seconds(2);

absl::Status WithoutUpload(const S3Request& request) {
  return absl::AbortedError(
      absl::StrCat(request.key, ": the upload no longer exists"));
}

absl::StatusOr<std::string> BeginUpload(const MultipartPut& put,
                                        S3Client* client) {
  const S3Request request = {.method = "POST",
                             .key = put.key,
                             .query = {{"uploads", ""}},
                             .headers = put.headers};
  CKPTDB_ASSIGN_OR_RETURN(const S3Answer answer,
                          client->Send(request, Budget(put.deadline)));
  if (!answer.ok()) return client->ErrorOf(request, answer);
  return ParseUploadId(answer.http.body);
}

// Returns the part's ETag.
absl::StatusOr<std::string> SendPart(const MultipartPut& put,
                                     const std::string& id, uint64_t index,
                                     S3Client* client) {
  const uint64_t part_bytes = PartBytesOf(put.file.bytes);
  const uint64_t begin = index * part_bytes;
  const S3Request request = {
      .method = "PUT",
      .key = put.key,
      .query = {{"partNumber", absl::StrCat(index + 1)}, {"uploadId", id}},
      .file = {.file = put.file.file,
               .offset = put.file.offset + begin,
               .bytes = std::min(part_bytes, put.file.bytes - begin)}};
  CKPTDB_ASSIGN_OR_RETURN(const S3Answer answer,
                          client->Send(request, Budget(put.deadline)));
  if (answer.error.code == "NoSuchUpload") return WithoutUpload(request);
  if (!answer.ok()) return client->ErrorOf(request, answer);
  std::string etag = answer.http.Header("etag");
  if (!etag.empty()) return etag;
  return absl::DataLossError(
      absl::StrCat(request.key, ": the answer to a part has no ETag"));
}

absl::StatusOr<std::vector<std::string>> SendParts(const MultipartPut& put,
                                                   const std::string& id,
                                                   S3Client* client) {
  const uint64_t part_bytes = PartBytesOf(put.file.bytes);
  std::vector<std::string> etags((put.file.bytes + part_bytes - 1) /
                                 part_bytes);
  CKPTDB_RETURN_IF_ERROR(ParallelFor(
      put.connections, etags.size(),
      [&](int /*worker*/, uint64_t i) -> absl::Status {
        CKPTDB_ASSIGN_OR_RETURN(etags[i], SendPart(put, id, i, client));
        return absl::OkStatus();
      }));
  return etags;
}

absl::Status CompleteUpload(const MultipartPut& put, const std::string& id,
                            const std::vector<std::string>& etags,
                            S3Client* client) {
  const std::string body = CompletionOf(etags);
  const S3Request request = {
      .method = "POST",
      .key = put.key,
      .query = {{"uploadId", id}},
      .headers = {"content-type: application/xml", "if-none-match: *"},
      .body = body};
  CKPTDB_ASSIGN_OR_RETURN(const S3Answer answer,
                          client->Send(request, Budget(put.deadline)));
  if (answer.ok()) return absl::OkStatus();
  if (answer.http.status == 404) return WithoutUpload(request);
  return client->ErrorOf(request, answer);
}

// An upload that remains is a cost, but no error of the put.
void AbortUpload(const MultipartPut& put, const std::string& id,
                 S3Client* client) {
  const S3Request request = {
      .method = "DELETE", .key = put.key, .query = {{"uploadId", id}}};
  client->Send(request, Budget(kAbortDeadline)).IgnoreError();
}

}  // namespace

uint64_t PartBytesOf(uint64_t file_bytes) {
  return std::max(kMinPartBytes, (file_bytes + kMaxParts - 1) / kMaxParts);
}

absl::Status PutInParts(const MultipartPut& put, S3Client* client) {
  CKPTDB_ASSIGN_OR_RETURN(const std::string id, BeginUpload(put, client));
  const absl::StatusOr<std::vector<std::string>> etags =
      SendParts(put, id, client);
  absl::Status status = etags.status();
  if (etags.ok()) status = CompleteUpload(put, id, *etags, client);
  const bool maybe_complete =
      etags.ok() && (absl::IsUnavailable(status) || absl::IsCancelled(status));
  if (!status.ok() && !absl::IsAborted(status) && !maybe_complete) {
    AbortUpload(put, id, client);
  }
  return status;
}

}  // namespace ckptdb::internal::s3
