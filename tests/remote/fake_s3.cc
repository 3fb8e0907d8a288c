// SPDX-License-Identifier: Apache-2.0
#include "tests/remote/fake_s3.h"

#include <algorithm>
#include <cstdio>
#include <functional>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

namespace ckptdb::testing {
namespace {

std::string XmlTime(absl::Time time) {
  return absl::FormatTime("%Y-%m-%dT%H:%M:%E3SZ", time, absl::UTCTimeZone());
}

std::string EtagOf(const std::string& bytes) {
  return absl::StrCat("\"", absl::Hex(std::hash<std::string>()(bytes)), "\"");
}

std::string TokenOf(const ServerRequest& request) {
  return request.Header("x-amz-meta-ckptdb-token");
}

}  // namespace

uint64_t FakeS3::uploads() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return uploads_.size();
}

ServerResponse FakeS3::Answer(const ServerRequest& request) {
  const std::lock_guard<std::mutex> lock(mutex_);
  absl::string_view path = request.path;
  absl::ConsumePrefix(&path, "/");
  const std::pair<std::string, std::string> parts =
      absl::StrSplit(path, absl::MaxSplits('/', 1));
  if (parts.first != kBucket) {
    return S3ErrorAnswer(404, "NoSuchBucket", "no such bucket");
  }
  return parts.second.empty() ? AnswerBucket(request)
                              : AnswerKey(request, parts.second);
}

ServerResponse FakeS3::AnswerBucket(const ServerRequest& request) {
  return request.HasParameter("uploads") ? ListUploads(request) : List(request);
}

ServerResponse FakeS3::AnswerKey(const ServerRequest& request,
                                 const std::string& key) {
  if (request.HasParameter("uploads") || request.HasParameter("uploadId")) {
    return AnswerUpload(request, key);
  }
  if (request.method == "PUT") {
    return Put(request, key, {request.body, TokenOf(request), absl::Now()});
  }
  if (request.method == "DELETE") {
    objects_.erase(key);
    return {.status = 204};
  }
  const auto found = objects_.find(key);
  if (found == objects_.end()) {
    return S3ErrorAnswer(404, "NoSuchKey", "no such key");
  }
  return Get(request, found->second);
}

ServerResponse FakeS3::Put(const ServerRequest& request, const std::string& key,
                           Object object) {
  const bool conditional = request.Header("if-none-match") == "*";
  if (conditional && !traits_.ignores_conditions && objects_.contains(key)) {
    return S3ErrorAnswer(412, "PreconditionFailed", "the object exists");
  }
  objects_[key] = std::move(object);
  return {.status = 200, .headers = {{"ETag", EtagOf(objects_[key].bytes)}}};
}

ServerResponse FakeS3::Get(const ServerRequest& request,
                           const Object& object) const {
  ServerResponse response = {
      .headers = {{"Last-Modified",
                   absl::FormatTime("%a, %d %b %Y %H:%M:%S GMT",
                                    object.modified, absl::UTCTimeZone())},
                  {"x-amz-meta-ckptdb-token", object.token}},
      .body = object.bytes,
      .length = object.bytes.size()};
  unsigned long long first = 0;
  unsigned long long last = 0;
  if (traits_.ignores_ranges ||
      std::sscanf(request.Header("range").c_str(), "bytes=%llu-%llu", &first,
                  &last) != 2) {
    return response;
  }
  if (first >= object.bytes.size()) {
    return S3ErrorAnswer(416, "InvalidRange", "beyond the end");
  }
  last = std::min<unsigned long long>(last, object.bytes.size() - 1);
  response.status = traits_.answers_ranges_with_200 ? 200 : 206;
  response.body = object.bytes.substr(first, last - first + 1);
  response.length = response.body.size();
  response.headers["Content-Range"] =
      absl::StrCat("bytes ", first, "-", last, "/", object.bytes.size());
  return response;
}

ServerResponse FakeS3::List(const ServerRequest& request) const {
  const std::string prefix = request.Parameter("prefix");
  const std::string after = request.Parameter("start-after");
  int most = 1000;
  if (absl::SimpleAtoi(request.Parameter("max-keys"), &most)) {
    most = std::min(most, 1000);
  }
  std::string body;
  bool truncated = false;
  int listed = 0;
  for (auto each = objects_.upper_bound(after); each != objects_.end();
       ++each) {
    if (!absl::StartsWith(each->first, prefix)) continue;
    truncated = listed == most;
    if (truncated) break;
    ++listed;
    absl::StrAppend(&body, "<Contents><Key>", each->first,
                    "</Key><LastModified>", XmlTime(each->second.modified),
                    "</LastModified><Size>", each->second.bytes.size(),
                    "</Size></Contents>");
  }
  return {.body = absl::StrCat("<ListBucketResult><IsTruncated>",
                               truncated ? "true" : "false", "</IsTruncated>",
                               body, "</ListBucketResult>")};
}

ServerResponse FakeS3::ListUploads(const ServerRequest& request) const {
  std::string body =
      "<ListMultipartUploadsResult>"
      "<IsTruncated>false</IsTruncated>";
  for (const auto& [id, upload] : uploads_) {
    if (!absl::StartsWith(upload.key, request.Parameter("prefix"))) continue;
    absl::StrAppend(&body, "<Upload><Key>", upload.key, "</Key><UploadId>", id,
                    "</UploadId><Initiated>", XmlTime(upload.initiated),
                    "</Initiated></Upload>");
  }
  return {.body = body + "</ListMultipartUploadsResult>"};
}

ServerResponse FakeS3::AnswerUpload(const ServerRequest& request,
                                    const std::string& key) {
  if (request.HasParameter("uploads")) {
    const std::string id = absl::StrCat("upload-", next_upload_++);
    uploads_[id] = {
        .key = key, .token = TokenOf(request), .initiated = absl::Now()};
    return {.body =
                absl::StrCat("<InitiateMultipartUploadResult><UploadId>", id,
                             "</UploadId></InitiateMultipartUploadResult>")};
  }
  const auto upload = uploads_.find(request.Parameter("uploadId"));
  if (upload == uploads_.end()) {
    return S3ErrorAnswer(404, "NoSuchUpload", "no such upload");
  }
  if (request.method == "DELETE") {
    uploads_.erase(upload);
    return {.status = 204};
  }
  if (request.method == "POST") return Complete(request);
  int number = 0;
  if (!absl::SimpleAtoi(request.Parameter("partNumber"), &number)) {
    return S3ErrorAnswer(400, "InvalidArgument", "partNumber");
  }
  upload->second.parts[number] = request.body;
  return {.headers = {{"ETag", EtagOf(request.body)}}};
}

ServerResponse FakeS3::Complete(const ServerRequest& request) {
  const auto found = uploads_.find(request.Parameter("uploadId"));
  const Upload upload = found->second;
  std::string bytes;
  std::string parts;
  for (const auto& [number, part] : upload.parts) {
    bytes += part;
    absl::StrAppend(&parts, "<Part><PartNumber>", number, "</PartNumber><ETag>",
                    EtagOf(part), "</ETag></Part>");
  }
  if (!absl::StrContains(request.body, parts)) {
    return S3ErrorAnswer(400, "InvalidPart", "other parts were sent");
  }
  const ServerResponse put =
      Put(request, upload.key, {bytes, upload.token, absl::Now()});
  if (put.status != 200) return put;
  uploads_.erase(found);
  return {.body = "<CompleteMultipartUploadResult/>"};
}

}  // namespace ckptdb::testing
