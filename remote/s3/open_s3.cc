// SPDX-License-Identifier: Apache-2.0
#include "remote/s3/open_s3.h"

#include "absl/strings/str_cat.h"
#include "remote/s3/credentials.h"
#include "remote/s3/http.h"
#include "remote/s3/s3_location.h"
#include "remote/s3/s3_store.h"
#include "schema/status.h"

namespace ckptdb::internal {

namespace {

constexpr int kMaxConnections = 256;

absl::Status CheckRemoteOptions(const RemoteOptions& options) {
  if (options.connections < 1 || options.connections > kMaxConnections) {
    return absl::InvalidArgumentError(
        absl::StrCat("RemoteOptions::connections is ", options.connections,
                     "; expected 1 to ", kMaxConnections));
  }
  if (options.deadline <= absl::ZeroDuration()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "RemoteOptions::deadline is ", absl::FormatDuration(options.deadline),
        "; expected more than 0"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<ObjectStore>> OpenS3(
    absl::string_view url, const RemoteOptions& options) {
  CKPTDB_RETURN_IF_ERROR(CheckRemoteOptions(options));
  CKPTDB_ASSIGN_OR_RETURN(const s3::S3Location location, s3::ParseS3Url(url));
  return std::make_unique<s3::S3Store>(location, options);
}

absl::StatusOr<std::string> DescribeS3Credentials(
    absl::string_view url, const RemoteOptions& options) {
  CKPTDB_ASSIGN_OR_RETURN(const s3::S3Location location, s3::ParseS3Url(url));
  s3::HttpClient http(options);
  s3::CredentialSource source(location.region, &http);
  CKPTDB_ASSIGN_OR_RETURN(const s3::Credentials found, source.Get());
  if (found.expires == absl::InfiniteFuture()) {
    return absl::StrCat("from ", found.source);
  }
  return absl::StrCat("from ", found.source, ", until ",
                      absl::FormatTime("%Y-%m-%d %H:%M:%S UTC", found.expires,
                                       absl::UTCTimeZone()));
}

}  // namespace ckptdb::internal
