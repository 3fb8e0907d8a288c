// SPDX-License-Identifier: Apache-2.0
// HTTP requests over libcurl; private to remote/s3.
//
//   HttpClient http(options);
//   CKPTDB_ASSIGN_OR_RETURN(const HttpResponse response,
//                           http.Send({.method = "GET", .url = url}));
#ifndef CKPTDB_REMOTE_S3_HTTP_H_
#define CKPTDB_REMOTE_S3_HTTP_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "db/base/mutex.h"
#include "remote/object_store.h"
#include "remote/s3/limits.h"
#include "remote/s3/pause.h"

namespace ckptdb::internal::s3 {

// The parameters of curl's signature of a request.
struct HttpSignature {
  std::string user;      // the access key's id
  std::string password;  // the secret access key
  std::string scope;     // "aws:amz:REGION:SERVICE"
};

// Bytes of an open file.
struct FilePart {
  int file = -1;  // -1: none
  uint64_t offset = 0;
  uint64_t bytes = 0;
};

struct HttpRequest {
  std::string method = {};                // GET, HEAD, PUT, POST or DELETE
  std::string url = {};                   // encoded
  std::vector<std::string> headers = {};  // "name: value"
  absl::string_view body = {};            // of PUT and POST
  FilePart file = {};                     // of PUT, instead of `body`
  std::string range = {};                 // "0-99"
  // Receives the body of an answer 200 or 206; if empty, HttpResponse does.
  absl::Span<char> out = {};
  // The request fails after this time without a byte sent or received.
  SteadyClock::duration stall = std::chrono::minutes(1);
  HttpSignature signature = {};  // an empty scope: not signed
};

struct HttpResponse {
  int status = 0;
  std::map<std::string, std::string> headers = {};  // names in lower case
  std::string body = {};                            // not what is in `out`
  uint64_t out_bytes = 0;
  bool too_long = false;  // for `out`: the rest was not read

  // Returns the value of a header, "" without one.
  std::string Header(const std::string& name) const;
};

// Sends requests over connections that it keeps, RemoteOptions::connections at
// most, and fewer where the service answers 429 or 503. Thread-safe.
class HttpClient {
 public:
  explicit HttpClient(const RemoteOptions& options);
  ~HttpClient();
  HttpClient(const HttpClient&) = delete;
  HttpClient& operator=(const HttpClient&) = delete;

  // Sends a request once, when a connection is free. Follows no redirect.
  // Returns Unavailable if it may succeed later, Cancelled within about
  // kPollEvery, and other errors that are final.
  absl::StatusOr<HttpResponse> Send(const HttpRequest& request);

  const Poll& poll() const { return poll_; }
  int connection_limit() const { return limit_.limit(); }

 private:
  class Connection;

  std::unique_ptr<Connection> TakeConnection();
  void KeepConnection(std::unique_ptr<Connection> connection);

  const Poll poll_;
  const std::string ca_bundle_;
  ByteRate rate_;
  RequestLimit limit_;
  Mutex mutex_;
  std::vector<std::unique_ptr<Connection>> idle_ ABSL_GUARDED_BY(mutex_);
};

// Encodes all but letters, digits and "-._~" as %XX.
std::string PercentEncode(absl::string_view text);
std::string PercentDecode(absl::string_view text);

}  // namespace ckptdb::internal::s3

#endif  // CKPTDB_REMOTE_S3_HTTP_H_
