// SPDX-License-Identifier: Apache-2.0
#include "remote/s3/s3_store.h"

#include <curl/curl.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "remote/s3/multipart_put.h"
#include "schema/status.h"
#include "schema/types.h"

namespace ckptdb::internal::s3 {

namespace {

constexpr char kTokenHeader[] = "x-amz-meta-ckptdb-token";
constexpr char kContentType[] = "content-type: application/octet-stream";
constexpr size_t kMaxTokenBytes = 64;
constexpr uint64_t kMaxPageKeys = 1000;
constexpr int kMaxUploads = 3;

absl::Status CheckToken(absl::string_view token) {
  if (token.size() <= kMaxTokenBytes &&
      (token.empty() || CheckKey(token).ok()) &&
      !absl::StrContains(token, "/")) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("the token is \"", Printable(token), "\"; expected at most ",
                   kMaxTokenBytes, " of [A-Za-z0-9._-]"));
}

std::vector<std::string> HeadersOf(absl::string_view token) {
  std::vector<std::string> headers = {kContentType};
  if (!token.empty()) {
    headers.push_back(absl::StrCat(kTokenHeader, ": ", token));
  }
  return headers;
}

class FileToPut {
 public:
  explicit FileToPut(const std::string& path)
      : file_(open(path.c_str(), O_RDONLY | O_CLOEXEC)) {}
  ~FileToPut() {
    if (file_ >= 0) close(file_);
  }
  FileToPut(const FileToPut&) = delete;
  FileToPut& operator=(const FileToPut&) = delete;

  absl::StatusOr<FilePart> All(const std::string& path) const {
    struct stat status = {};
    if (file_ >= 0 && fstat(file_, &status) == 0) {
      return FilePart{.file = file_,
                      .offset = 0,
                      .bytes = static_cast<uint64_t>(status.st_size)};
    }
    return absl::FailedPreconditionError(
        absl::StrCat("cannot open file ", path, ": ", std::strerror(errno)));
  }

 private:
  const int file_;
};

// The object's bytes that an answer says it has: "bytes 0-99/1000".
struct ContentRange {
  uint64_t first = 0;
  uint64_t last = 0;
};

bool ParseContentRange(absl::string_view text, ContentRange* range) {
  if (!absl::ConsumePrefix(&text, "bytes ")) return false;
  const std::vector<absl::string_view> ends =
      absl::StrSplit(text.substr(0, text.find('/')), '-');
  return ends.size() == 2 && absl::SimpleAtoi(ends[0], &range->first) &&
         absl::SimpleAtoi(ends[1], &range->last);
}

// Checks that an answer to a ranged get has the bytes that were asked for.
absl::Status CheckRange(const S3Request& request, const S3Answer& answer,
                        uint64_t offset) {
  const uint64_t wanted = request.out.size();
  const std::string header = answer.http.Header("content-range");
  ContentRange range = {.first = 0, .last = wanted - 1};
  if (header.empty() && (offset > 0 || answer.http.too_long)) {
    return absl::FailedPreconditionError(
        absl::StrCat(request.key, ": the service answered range ",
                     request.range, " with HTTP ", answer.http.status,
                     " without Content-Range; it must support ranged gets"));
  }
  const bool parsed = header.empty() || ParseContentRange(header, &range);
  if (parsed && range.first == offset && range.last == offset + wanted - 1 &&
      answer.http.out_bytes == wanted && !answer.http.too_long) {
    return absl::OkStatus();
  }
  return absl::DataLossError(absl::StrCat(
      request.key, ": expected ", wanted, " bytes at ", offset,
      ", but the answer has ", answer.http.too_long ? "more than " : "",
      answer.http.out_bytes, ", with Content-Range \"", Printable(header),
      "\""));
}

ObjectInfo InfoOf(absl::string_view key, const HttpResponse& response) {
  ObjectInfo info;
  info.key = std::string(key);
  info.modified = absl::FromTimeT(
      curl_getdate(response.Header("last-modified").c_str(), nullptr));
  info.token = response.Header(kTokenHeader);
  return info;
}

}  // namespace

std::string S3Store::PathOf(absl::string_view key) const {
  return absl::StrCat(client_.location().prefix, key);
}

absl::StatusOr<S3Answer> S3Store::SendHead(const S3Request& request,
                                           const Budget& budget) {
  CKPTDB_ASSIGN_OR_RETURN(S3Answer answer, client_.Send(request, budget));
  if (answer.ok() || (answer.http.status == 404 && client_.knows_bucket())) {
    return answer;
  }
  // An answer to HEAD has no body: it does not tell a missing bucket from a
  // missing object, nor credentials that have expired from wrong ones. That to
  // a list does.
  const S3Request list = {
      .method = "GET",
      .query = {
          {"list-type", "2"}, {"max-keys", "1"}, {"prefix", request.key}}};
  CKPTDB_ASSIGN_OR_RETURN(const S3Answer listed, client_.Send(list, budget));
  if (!listed.ok()) return client_.ErrorOf(list, listed);
  if (answer.http.status == 404) return answer;
  return client_.Send(request, budget);
}

absl::StatusOr<ObjectInfo> S3Store::HeadOf(absl::string_view key,
                                           const Budget& budget) {
  const S3Request request = {.method = "HEAD", .key = PathOf(key)};
  CKPTDB_ASSIGN_OR_RETURN(const S3Answer answer, SendHead(request, budget));
  if (!answer.ok()) return client_.ErrorOf(request, answer);
  ObjectInfo info = InfoOf(key, answer.http);
  if (absl::SimpleAtoi(answer.http.Header("content-length"), &info.size)) {
    return info;
  }
  return absl::DataLossError(
      absl::StrCat(request.key, ": the answer to HEAD has no Content-Length"));
}

absl::StatusOr<ObjectInfo> S3Store::Head(absl::string_view key) {
  CKPTDB_RETURN_IF_ERROR(CheckKey(key));
  return HeadOf(key, Budget(options_.deadline));
}

absl::Status S3Store::CompareToken(absl::string_view key,
                                   absl::string_view token,
                                   const Budget& budget) {
  CKPTDB_ASSIGN_OR_RETURN(const ObjectInfo found, HeadOf(key, budget));
  if (!token.empty() && found.token == token) return absl::OkStatus();
  return absl::AlreadyExistsError(absl::StrCat(
      Name(), ": ", PathOf(key), " exists; another put created it"));
}

absl::Status S3Store::PutOnce(absl::string_view key, absl::string_view token,
                              S3Request request, const Budget& budget) {
  request.method = "PUT";
  request.key = PathOf(key);
  request.headers = HeadersOf(token);
  request.headers.emplace_back("if-none-match: *");
  CKPTDB_ASSIGN_OR_RETURN(const S3Answer answer, client_.Send(request, budget));
  if (answer.ok()) return absl::OkStatus();
  if (answer.http.status != 412) return client_.ErrorOf(request, answer);
  absl::Status compared = CompareToken(key, token, budget);
  if (!absl::IsNotFound(compared)) return compared;
  return absl::UnavailableError(
      absl::StrCat(Name(), ": ", request.key,
                   " existed when it was put, and was deleted since"));
}

absl::Status S3Store::PutIfAbsent(absl::string_view key,
                                  absl::string_view bytes,
                                  absl::string_view token) {
  CKPTDB_RETURN_IF_ERROR(CheckKey(key));
  CKPTDB_RETURN_IF_ERROR(CheckToken(token));
  return PutOnce(key, token, {.body = bytes}, Budget(options_.deadline));
}

absl::Status S3Store::PutLarge(absl::string_view key, absl::string_view token,
                               const FilePart& file) {
  const MultipartPut put = {.key = PathOf(key),
                            .headers = HeadersOf(token),
                            .file = file,
                            .connections = options_.connections,
                            .deadline = options_.deadline};
  // Services receive all parts before they find that the object exists.
  absl::Status found = CompareToken(key, token, Budget(options_.deadline));
  for (int uploads = 0; absl::IsNotFound(found); ++uploads) {
    if (uploads == kMaxUploads) {
      return absl::UnavailableError(
          absl::StrCat(Name(), ": ", uploads, " uploads of ", put.key,
                       " were aborted before they were completed"));
    }
    absl::Status status = PutInParts(put, &client_);
    if (!absl::IsAborted(status) && !absl::IsAlreadyExists(status)) {
      return status;
    }
    found = CompareToken(key, token, Budget(options_.deadline));
  }
  return found;
}

absl::Status S3Store::PutFileIfAbsent(absl::string_view key,
                                      const std::string& path,
                                      absl::string_view token) {
  CKPTDB_RETURN_IF_ERROR(CheckKey(key));
  CKPTDB_RETURN_IF_ERROR(CheckToken(token));
  const FileToPut opened(path);
  CKPTDB_ASSIGN_OR_RETURN(const FilePart file, opened.All(path));
  if (file.bytes > kMinPartBytes) return PutLarge(key, token, file);
  return PutOnce(key, token, {.file = file}, Budget(options_.deadline));
}

absl::Status S3Store::Get(absl::string_view key, uint64_t offset,
                          absl::Span<char> out) {
  CKPTDB_RETURN_IF_ERROR(CheckKey(key));
  const Budget budget(options_.deadline);
  if (out.empty()) {
    CKPTDB_ASSIGN_OR_RETURN(const ObjectInfo info, HeadOf(key, budget));
    if (offset <= info.size) return absl::OkStatus();
    return absl::DataLossError(absl::StrCat(PathOf(key), " has ", info.size,
                                            " bytes, fewer than ", offset));
  }
  const S3Request request = {
      .method = "GET",
      .key = PathOf(key),
      .range = absl::StrCat(offset, "-", offset + out.size() - 1),
      .out = out};
  CKPTDB_ASSIGN_OR_RETURN(const S3Answer answer, client_.Send(request, budget));
  if (!answer.ok()) return client_.ErrorOf(request, answer);
  return CheckRange(request, answer, offset);
}

absl::StatusOr<ObjectPage> S3Store::ListPage(absl::string_view prefix,
                                             absl::string_view after,
                                             uint64_t limit,
                                             const Budget& budget) {
  S3Request request = {.method = "GET",
                       .query = {{"list-type", "2"},
                                 {"max-keys", absl::StrCat(limit)},
                                 {"prefix", PathOf(prefix)}}};
  // Consoles create an object "folder/" to show an empty folder. SeaweedFS
  // lists it alone for one key, without saying that there are more.
  const std::string start =
      PathOf(after.empty() && absl::EndsWith(prefix, "/") ? prefix : after);
  if (!start.empty()) request.query["start-after"] = start;
  CKPTDB_ASSIGN_OR_RETURN(const S3Answer answer, client_.Send(request, budget));
  if (!answer.ok()) return client_.ErrorOf(request, answer);
  CKPTDB_ASSIGN_OR_RETURN(ObjectPage page, ParseObjectPage(answer.http.body));
  const std::string& base = client_.location().prefix;
  std::string last = start;
  std::vector<ObjectInfo> objects;
  for (ObjectInfo& object : page.objects) {
    if (object.key < last || !absl::StartsWith(object.key, PathOf(prefix))) {
      return absl::FailedPreconditionError(absl::StrCat(
          Name(), ": the list of ", PathOf(prefix), " has ",
          Printable(object.key), " after ", Printable(last),
          "; the service must list keys in the order of their bytes"));
    }
    last = object.key;
    object.key.erase(0, base.size());
    if (!absl::EndsWith(last, "/")) objects.push_back(std::move(object));
  }
  page.objects = std::move(objects);
  page.last = last.substr(base.size());
  return page;
}

absl::StatusOr<std::vector<ObjectInfo>> S3Store::List(absl::string_view prefix,
                                                      absl::string_view after,
                                                      uint64_t limit) {
  const Budget budget(options_.deadline);
  std::vector<ObjectInfo> objects;
  std::string last(after);
  while (objects.size() < limit) {
    CKPTDB_ASSIGN_OR_RETURN(
        ObjectPage page,
        ListPage(prefix, last, std::min(limit - objects.size(), kMaxPageKeys),
                 budget));
    for (ObjectInfo& object : page.objects) {
      objects.push_back(std::move(object));
    }
    if (!page.truncated || page.last == last) break;
    last = page.last;
  }
  return objects;
}

absl::Status S3Store::Delete(absl::string_view key) {
  CKPTDB_RETURN_IF_ERROR(CheckKey(key));
  const S3Request request = {.method = "DELETE", .key = PathOf(key)};
  CKPTDB_ASSIGN_OR_RETURN(const S3Answer answer,
                          client_.Send(request, Budget(options_.deadline)));
  const absl::Status status =
      answer.ok() ? absl::OkStatus() : client_.ErrorOf(request, answer);
  return absl::IsNotFound(status) ? absl::OkStatus() : status;
}

absl::Status S3Store::AbortUpload(const UploadInfo& upload) {
  const S3Request request = {.method = "DELETE",
                             .key = upload.key,
                             .query = {{"uploadId", upload.id}}};
  CKPTDB_ASSIGN_OR_RETURN(const S3Answer answer,
                          client_.Send(request, Budget(options_.deadline)));
  if (answer.ok() || answer.error.code == "NoSuchUpload") {
    return absl::OkStatus();
  }
  return client_.ErrorOf(request, answer);
}

absl::Status S3Store::AbortUploads(absl::string_view prefix,
                                   absl::Time before) {
  S3Request request = {.method = "GET",
                       .query = {{"prefix", PathOf(prefix)}, {"uploads", ""}}};
  for (;;) {
    CKPTDB_ASSIGN_OR_RETURN(const S3Answer answer,
                            client_.Send(request, Budget(options_.deadline)));
    if (!answer.ok()) return client_.ErrorOf(request, answer);
    CKPTDB_ASSIGN_OR_RETURN(const UploadPage page,
                            ParseUploadPage(answer.http.body));
    for (const UploadInfo& upload : page.uploads) {
      // Some services ignore `prefix`.
      const bool below = absl::StartsWith(upload.key, PathOf(prefix));
      if (!below || upload.initiated >= before) continue;
      CKPTDB_RETURN_IF_ERROR(AbortUpload(upload));
    }
    if (!page.truncated || page.uploads.empty()) return absl::OkStatus();
    request.query["key-marker"] = page.next_key;
    request.query["upload-id-marker"] = page.next_id;
  }
}

}  // namespace ckptdb::internal::s3
