// SPDX-License-Identifier: Apache-2.0
// Signed requests to a bucket, with retries; private to remote/s3.
#ifndef CKPTDB_REMOTE_S3_S3_CLIENT_H_
#define CKPTDB_REMOTE_S3_S3_CLIENT_H_

#include <algorithm>
#include <atomic>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "remote/object_store.h"
#include "remote/s3/credentials.h"
#include "remote/s3/http.h"
#include "remote/s3/s3_location.h"
#include "remote/s3/s3_xml.h"

namespace ckptdb::internal::s3 {

// The time that the requests of a call share, including all retries. Only one
// thread uses it.
class Budget {
 public:
  explicit Budget(absl::Duration deadline)
      : end_(SteadyClock::now() +
             absl::ToChronoNanoseconds(std::min(deadline, kMaxDeadline))) {}

  SteadyClock::duration Left() const { return end_ - SteadyClock::now(); }

 private:
  static constexpr absl::Duration kMaxDeadline = absl::Hours(24 * 365);

  const SteadyClock::time_point end_;
};

struct S3Request {
  std::string method = {};
  std::string key = {};  // in the bucket; empty: the bucket
  // Sorted by name, as the signature needs it; each has '=', also without a
  // value.
  std::map<std::string, std::string> query = {};
  std::vector<std::string> headers = {};
  absl::string_view body = {};
  FilePart file = {};
  std::string range = {};
  absl::Span<char> out = {};
};

// The service's last answer.
struct S3Answer {
  HttpResponse http;
  ServiceError error = {};  // if the status is not 2xx, or the body is an error

  bool ok() const { return http.status >= 200 && http.status < 300; }
};

// Thread-safe.
class S3Client {
 public:
  S3Client(S3Location location, const RemoteOptions& options);

  const S3Location& location() const { return location_; }
  const Poll& poll() const { return http_.poll(); }
  int connection_limit() const { return http_.connection_limit(); }
  // Returns whether an answer has shown that the bucket exists.
  bool knows_bucket() const { return knows_bucket_; }

  // Sends a request, and again after each failure that may pass, until the
  // budget is spent: then it returns Unavailable with the last failure. Bytes
  // that move are not cut off by the budget. Any other answer of the service,
  // also a refusal, is returned as it is.
  absl::StatusOr<S3Answer> Send(const S3Request& request, const Budget& budget);

  // Returns a refusal as an error with the request, the service's words, and
  // the remedy.
  absl::Status ErrorOf(const S3Request& request, const S3Answer& answer) const;

 private:
  absl::StatusOr<S3Answer> Try(const S3Request& request,
                               const Credentials& credentials,
                               SteadyClock::duration stall);
  absl::Status FailureOf(const S3Request& request,
                         const absl::StatusOr<S3Answer>& answer,
                         absl::string_view about) const;
  std::string UrlOf(const S3Request& request) const;
  std::string NameOf(const S3Request& request) const;

  const S3Location location_;
  const std::function<void(const absl::Status& error)> on_retry_;
  HttpClient http_;
  CredentialSource credentials_;
  std::atomic<bool> knows_bucket_ = false;
};

}  // namespace ckptdb::internal::s3

#endif  // CKPTDB_REMOTE_S3_S3_CLIENT_H_
