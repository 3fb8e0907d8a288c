// SPDX-License-Identifier: Apache-2.0
#include "remote/s3/s3_location.h"

#include <algorithm>
#include <initializer_list>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "remote/s3/aws_profile.h"
#include "remote/s3/http.h"
#include "schema/status.h"
#include "schema/types.h"

namespace ckptdb::internal::s3 {

namespace {

constexpr size_t kMinBucketBytes = 3;
constexpr size_t kMaxBucketBytes = 63;
constexpr size_t kMaxKeyBytes = 1024;

bool IsKeyCharacter(char c) {
  return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '.' ||
         c == '_' || c == '-';
}

bool IsKeyPart(absl::string_view part) {
  return !part.empty() && part != "." && part != ".." &&
         std::all_of(part.begin(), part.end(), IsKeyCharacter);
}

// The first of the values that is not empty.
std::string FirstOf(std::initializer_list<std::string> values) {
  for (const std::string& value : values) {
    if (!value.empty()) return value;
  }
  return "";
}

struct S3Parameters {
  std::string endpoint;
  std::string region;
};

absl::StatusOr<S3Parameters> ParseParameters(absl::string_view query) {
  S3Parameters parameters;
  for (const absl::string_view each :
       absl::StrSplit(query, '&', absl::SkipEmpty())) {
    const std::pair<absl::string_view, absl::string_view> parameter =
        absl::StrSplit(each, absl::MaxSplits('=', 1));
    const std::string value = PercentDecode(parameter.second);
    if (parameter.first == "endpoint") {
      parameters.endpoint = value;
    } else if (parameter.first == "region") {
      parameters.region = value;
    } else {
      return absl::InvalidArgumentError(absl::StrCat(
          "parameter \"", Printable(parameter.first),
          "\" of the URL is unknown; expected endpoint or region"));
    }
  }
  return parameters;
}

absl::Status CheckBucket(absl::string_view bucket) {
  if (absl::StrContains(bucket, "@")) {
    return absl::InvalidArgumentError(
        "the URL contains a user or a password; give credentials as "
        "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY");
  }
  const bool good = bucket.size() >= kMinBucketBytes &&
                    bucket.size() <= kMaxBucketBytes && IsKeyPart(bucket);
  if (good) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "the bucket is \"", Printable(bucket), "\"; expected ", kMinBucketBytes,
      " to ", kMaxBucketBytes, " of [A-Za-z0-9._-], as in s3://bucket/prefix"));
}

absl::Status CheckEndpoint(absl::string_view endpoint) {
  absl::string_view host = endpoint;
  if (absl::StrContains(endpoint, "@")) {
    return absl::InvalidArgumentError(
        "the endpoint contains a user or a password; give credentials as "
        "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY");
  }
  const bool scheme = absl::ConsumePrefix(&host, "http://") ||
                      absl::ConsumePrefix(&host, "https://");
  if (scheme && !host.empty() &&
      host.find_first_of("/?# \t\r\n") == absl::string_view::npos) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("the endpoint is \"", Printable(endpoint),
                   "\"; expected http://HOST:PORT or https://HOST"));
}

absl::Status CheckRegion(absl::string_view region) {
  if (IsKeyPart(region)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("the region is \"", Printable(region),
                   "\"; expected a name such as eu-central-1"));
}

std::string AmazonUrl(absl::string_view bucket, absl::string_view region) {
  const absl::string_view domain =
      absl::StartsWith(region, "cn-") ? "amazonaws.com.cn" : "amazonaws.com";
  // A certificate for *.s3.REGION does not match a name with a dot.
  if (absl::StrContains(bucket, ".")) {
    return absl::StrCat("https://s3.", region, ".", domain, "/", bucket);
  }
  return absl::StrCat("https://", bucket, ".s3.", region, ".", domain);
}

// Returns what the URL gives, and otherwise the environment and the profile.
// The endpoint is empty for Amazon's.
absl::StatusOr<S3Parameters> ResolveParameters(absl::string_view query) {
  CKPTDB_ASSIGN_OR_RETURN(const S3Parameters given, ParseParameters(query));
  CKPTDB_ASSIGN_OR_RETURN(const AwsProfile profile, ReadAwsProfile());
  const std::string endpoint = FirstOf(
      {given.endpoint, EnvironmentOf("AWS_ENDPOINT_URL_S3"),
       EnvironmentOf("AWS_ENDPOINT_URL"), profile.Value("endpoint_url")});
  S3Parameters resolved = {
      .endpoint = std::string(absl::StripSuffix(endpoint, "/")),
      .region = FirstOf({given.region, EnvironmentOf("AWS_REGION"),
                         EnvironmentOf("AWS_DEFAULT_REGION"),
                         profile.Value("region"), "us-east-1"})};
  CKPTDB_RETURN_IF_ERROR(CheckRegion(resolved.region));
  if (!endpoint.empty()) {
    CKPTDB_RETURN_IF_ERROR(CheckEndpoint(resolved.endpoint));
  }
  return resolved;
}

}  // namespace

absl::Status CheckKey(absl::string_view key) {
  const std::vector<absl::string_view> parts = absl::StrSplit(key, '/');
  if (key.size() <= kMaxKeyBytes &&
      std::all_of(parts.begin(), parts.end(), IsKeyPart)) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "the object key is \"", Printable(key), "\"; expected at most ",
      kMaxKeyBytes, " bytes, with parts of [A-Za-z0-9._-] separated by '/'"));
}

absl::StatusOr<S3Location> ParseS3Url(absl::string_view url) {
  S3Location location;
  absl::string_view rest = url;
  if (!absl::ConsumePrefix(&rest, "s3://")) {
    return absl::InvalidArgumentError(
        absl::StrCat("the URL is \"", Printable(url.substr(0, url.find(':'))),
                     ":...\"; expected s3://bucket/prefix"));
  }
  const std::pair<absl::string_view, absl::string_view> halves =
      absl::StrSplit(rest, absl::MaxSplits('?', 1));
  const std::pair<absl::string_view, absl::string_view> path =
      absl::StrSplit(halves.first, absl::MaxSplits('/', 1));
  CKPTDB_RETURN_IF_ERROR(CheckBucket(path.first));
  location.bucket = std::string(path.first);
  const absl::string_view prefix = absl::StripSuffix(path.second, "/");
  if (!prefix.empty()) {
    CKPTDB_RETURN_IF_ERROR(CheckKey(prefix));
    location.prefix = absl::StrCat(prefix, "/");
  }
  CKPTDB_ASSIGN_OR_RETURN(const S3Parameters parameters,
                          ResolveParameters(halves.second));
  location.region = parameters.region;
  location.base_url =
      parameters.endpoint.empty()
          ? AmazonUrl(location.bucket, location.region)
          : absl::StrCat(parameters.endpoint, "/", location.bucket);
  location.name = std::string(url);
  return location;
}

}  // namespace ckptdb::internal::s3
