// SPDX-License-Identifier: Apache-2.0
#include "remote/s3/s3_client.h"

#include <algorithm>
#include <chrono>
#include <random>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "schema/status.h"
#include "schema/types.h"

namespace ckptdb::internal::s3 {

namespace {

constexpr std::chrono::milliseconds kFirstBackoff(100);
constexpr std::chrono::seconds kMaxBackoff(20);
// A request without a byte sent or received for so long is begun anew.
constexpr std::chrono::seconds kStallLimit(60);
// The longest part of a service's message that an error repeats.
constexpr size_t kMaxMessageBytes = 500;

bool OneOf(const std::string& code, std::initializer_list<const char*> codes) {
  return std::find(codes.begin(), codes.end(), code) != codes.end();
}

bool IsExpired(const S3Answer& answer) {
  return !answer.ok() &&
         OneOf(answer.error.code, {"ExpiredToken", "ExpiredTokenException",
                                   "TokenRefreshRequired"});
}

bool MaySucceedLater(const S3Answer& answer) {
  const int status = answer.http.status;
  if (answer.ok() || status == 501) return false;
  return status >= 500 || status == 408 || status == 409 || status == 429 ||
         IsExpired(answer) ||
         OneOf(answer.error.code, {"RequestTimeout", "IncompleteBody",
                                   "BadDigest", "SlowDown", "Throttling"});
}

// Services announce a failure of a long request in the body of an answer 200.
int StatusOfCode(const std::string& code) {
  if (code == "PreconditionFailed") return 412;
  if (code == "NoSuchUpload" || code == "NoSuchBucket") return 404;
  if (code == "AccessDenied") return 403;
  if (OneOf(code, {"InvalidPart", "InvalidPartOrder", "EntityTooSmall",
                   "InvalidRequest"})) {
    return 400;
  }
  return 500;
}

// The time before the next try: random, so that clients that failed together
// do not come back together.
SteadyClock::duration BackoffOf(int tries, const HttpResponse* response) {
  thread_local std::mt19937_64 random(std::random_device{}());
  const auto most = std::min<std::chrono::milliseconds>(
      kMaxBackoff, kFirstBackoff * (1LL << std::min(tries, 16)));
  std::chrono::milliseconds wait(
      std::uniform_int_distribution<int64_t>(0, most.count())(random));
  int seconds = 0;
  if (response != nullptr &&
      absl::SimpleAtoi(response->Header("retry-after"), &seconds)) {
    wait += std::min<std::chrono::milliseconds>(
        std::chrono::seconds(std::max(seconds, 0)), kMaxBackoff);
  }
  return wait;
}

std::string WordsOf(const S3Answer& answer) {
  std::string words = absl::StrCat("HTTP ", answer.http.status);
  if (!answer.error.code.empty()) {
    absl::StrAppend(&words, " ", Printable(answer.error.code));
  }
  if (!answer.error.message.empty()) {
    absl::StrAppend(
        &words, ": ",
        Printable(answer.error.message.substr(0, kMaxMessageBytes)));
  }
  return words;
}

std::string RemedyOf(const S3Answer& answer, const S3Location& location) {
  const std::string& code = answer.error.code;
  std::string region = answer.http.Header("x-amz-bucket-region");
  if (region.empty()) region = answer.error.region;
  if (!region.empty() && region != location.region) {
    return absl::StrCat("the bucket is in region ", Printable(region),
                        ", not in ", location.region, "; set AWS_REGION");
  }
  if (code == "NoSuchBucket") {
    return absl::StrCat("create bucket ", location.bucket,
                        ", or correct the URL");
  }
  if (IsExpired(answer)) return "renew the credentials";
  if (code == "RequestTimeTooSkewed") return "set this machine's clock";
  if (OneOf(code, {"InvalidAccessKeyId", "SignatureDoesNotMatch"})) {
    return "check the access key's id and the secret access key";
  }
  if (answer.http.status == 401 || answer.http.status == 403) {
    return "allow these credentials s3:ListBucket, s3:GetObject, "
           "s3:PutObject, s3:DeleteObject, s3:AbortMultipartUpload and "
           "s3:ListBucketMultipartUploads";
  }
  if (answer.http.status / 100 == 3) return "correct the endpoint";
  return "";
}

absl::StatusCode CodeOf(const S3Answer& answer) {
  switch (answer.http.status) {
    case 401:
    case 403:
      return absl::StatusCode::kPermissionDenied;
    case 404:
      return answer.error.code == "NoSuchBucket"
                 ? absl::StatusCode::kFailedPrecondition
                 : absl::StatusCode::kNotFound;
    case 412:
      return absl::StatusCode::kAlreadyExists;
    case 416:
      return absl::StatusCode::kDataLoss;
    default:
      return IsExpired(answer) ? absl::StatusCode::kPermissionDenied
                               : absl::StatusCode::kFailedPrecondition;
  }
}

}  // namespace

S3Client::S3Client(S3Location location, const RemoteOptions& options)
    : location_(std::move(location)),
      on_retry_(options.on_retry),
      http_(options),
      credentials_(location_.region, &http_) {}

std::string S3Client::UrlOf(const S3Request& request) const {
  const auto encode = [](std::string* out, const auto& parameter) {
    absl::StrAppend(out, PercentEncode(parameter.first), "=",
                    PercentEncode(parameter.second));
  };
  return absl::StrCat(location_.base_url, "/", request.key,
                      request.query.empty() ? "" : "?",
                      absl::StrJoin(request.query, "&", encode));
}

std::string S3Client::NameOf(const S3Request& request) const {
  return absl::StrCat(location_.name, ": ", request.method, " ",
                      request.key.empty() ? "of the bucket" : request.key);
}

absl::StatusOr<S3Answer> S3Client::Try(const S3Request& request,
                                       const Credentials& credentials,
                                       SteadyClock::duration stall) {
  HttpRequest http = {
      .method = request.method,
      .url = UrlOf(request),
      .headers = request.headers,
      .body = request.body,
      .file = request.file,
      .range = request.range,
      .out = request.out,
      .stall = std::min<SteadyClock::duration>(stall, kStallLimit),
      .signature = {
          .user = credentials.access_key_id,
          .password = credentials.secret_access_key,
          .scope = absl::StrCat("aws:amz:", location_.region, ":s3")}};
  http.headers.emplace_back("x-amz-content-sha256: UNSIGNED-PAYLOAD");
  if (!credentials.session_token.empty()) {
    http.headers.push_back(
        absl::StrCat("x-amz-security-token: ", credentials.session_token));
  }
  CKPTDB_ASSIGN_OR_RETURN(HttpResponse response, http_.Send(http));
  S3Answer answer = {.http = std::move(response)};
  if (!answer.ok() || request.method == "POST") {
    answer.error = ParseError(answer.http.body);
  }
  if (answer.ok() && !answer.error.code.empty()) {
    answer.http.status = StatusOfCode(answer.error.code);
  }
  answer.error.message = Redact(answer.error.message, credentials);
  if (answer.ok() || answer.error.code == "NoSuchKey") knows_bucket_ = true;
  return answer;
}

absl::StatusOr<S3Answer> S3Client::Send(const S3Request& request,
                                        const Budget& budget) {
  for (int tries = 1;; ++tries) {
    const absl::StatusOr<Credentials> credentials = credentials_.Get();
    absl::StatusOr<S3Answer> answer =
        credentials.ok() ? Try(request, *credentials, budget.Left())
                         : absl::StatusOr<S3Answer>(credentials.status());
    if (answer.ok() && !MaySucceedLater(*answer)) return answer;
    if (!answer.ok() && !absl::IsUnavailable(answer.status())) {
      return absl::Status(
          answer.status().code(),
          absl::StrCat(NameOf(request), ": ", answer.status().message()));
    }
    const bool expired = answer.ok() && IsExpired(*answer);
    if (expired) credentials_.Reject(*credentials);
    // The first renewal needs no wait.
    const SteadyClock::duration wait =
        expired && tries == 1
            ? SteadyClock::duration::zero()
            : BackoffOf(tries - 1, answer.ok() ? &answer->http : nullptr);
    if (budget.Left() <= wait) {
      return FailureOf(request, answer,
                       absl::StrCat("no success until the deadline, in ", tries,
                                    tries == 1 ? " try: " : " tries, ",
                                    tries == 1 ? "" : "the last: "));
    }
    if (on_retry_) on_retry_(FailureOf(request, answer, ""));
    CKPTDB_RETURN_IF_ERROR(Pause(wait, poll()));
  }
}

// Returns the error of a request that may succeed later.
absl::Status S3Client::FailureOf(const S3Request& request,
                                 const absl::StatusOr<S3Answer>& answer,
                                 absl::string_view about) const {
  std::string last = std::string(answer.status().message());
  absl::StatusCode code = absl::StatusCode::kUnavailable;
  if (answer.ok()) {
    last = WordsOf(*answer);
    if (IsExpired(*answer)) {
      code = absl::StatusCode::kPermissionDenied;
      absl::StrAppend(&last, "; ", RemedyOf(*answer, location_));
    }
  }
  return {code, absl::StrCat(NameOf(request), ": ", about, last)};
}

absl::Status S3Client::ErrorOf(const S3Request& request,
                               const S3Answer& answer) const {
  const std::string remedy = RemedyOf(answer, location_);
  return {CodeOf(answer), absl::StrCat(NameOf(request), ": ", WordsOf(answer),
                                       remedy.empty() ? "" : "; ", remedy)};
}

}  // namespace ckptdb::internal::s3
