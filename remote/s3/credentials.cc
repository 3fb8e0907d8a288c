// SPDX-License-Identifier: Apache-2.0
#include "remote/s3/credentials.h"

#include <algorithm>
#include <chrono>
#include <fstream>
#include <iterator>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "nlohmann/json.hpp"
#include "remote/s3/run_shell.h"
#include "remote/s3/s3_xml.h"
#include "schema/status.h"

namespace ckptdb::internal::s3 {

namespace {

// Credentials are renewed this long before they expire, while requests with
// the old ones still succeed, or after half of a shorter time.
constexpr absl::Duration kRenewBefore = absl::Minutes(5);
constexpr std::chrono::minutes kProcessLimit(1);

absl::StatusOr<Credentials> CheckComplete(Credentials credentials) {
  if (!credentials.access_key_id.empty() &&
      !credentials.secret_access_key.empty()) {
    return credentials;
  }
  return absl::FailedPreconditionError(
      absl::StrCat(credentials.source,
                   " contains only a part of the credentials; set both the "
                   "access key's id and the secret access key"));
}

std::string TextOf(const nlohmann::json& document, const char* key) {
  const auto value = document.find(key);
  const bool text = value != document.end() && value->is_string();
  return text ? value->get<std::string>() : "";
}

// Returns when credentials expire: never if `time` is empty.
absl::StatusOr<absl::Time> ParseExpiry(const std::string& time,
                                       const std::string& source) {
  absl::Time expires = absl::InfiniteFuture();
  std::string error;
  if (time.empty() ||
      absl::ParseTime(absl::RFC3339_full, time, &expires, &error)) {
    return expires;
  }
  return absl::FailedPreconditionError(
      absl::StrCat(source,
                   " returned an expiry that is not a time in RFC "
                   "3339, such as 2026-11-26T12:00:00Z"));
}

absl::Status NoCredentials(const AwsProfile& profile) {
  for (const char* key : {"source_profile", "sso_session", "sso_start_url",
                          "credential_source"}) {
    if (profile.Value(key).empty()) continue;
    return absl::FailedPreconditionError(absl::StrCat(
        "profile \"", profile.name, "\" takes its credentials from ", key,
        ", which is not supported; set its credential_process = aws configure "
        "export-credentials --profile ",
        profile.name));
  }
  return absl::FailedPreconditionError(
      absl::StrCat("there are no credentials; set AWS_ACCESS_KEY_ID and "
                   "AWS_SECRET_ACCESS_KEY, or configure profile \"",
                   profile.name, "\" in ~/.aws/credentials"));
}

}  // namespace

std::string Redact(const std::string& text, const Credentials& credentials) {
  std::string redacted = text;
  for (const std::string* secret :
       {&credentials.session_token, &credentials.secret_access_key,
        &credentials.access_key_id}) {
    if (secret->empty()) continue;
    redacted = absl::StrReplaceAll(redacted, {{*secret, "***"}});
  }
  return redacted;
}

absl::StatusOr<Credentials> CredentialSource::Get() {
  const MutexLock lock(&mutex_);
  const absl::Time now = clock_();
  if (loaded_.has_value() && now < renew_at_) return *loaded_;
  const absl::StatusOr<Credentials> fresh = Load();
  if (fresh.ok()) {
    loaded_ = *fresh;
  } else if (!loaded_.has_value() || now >= loaded_->expires) {
    return fresh.status();
  }
  const absl::Duration left = loaded_->expires - now;
  renew_at_ = now + std::max(left - kRenewBefore, left / 2);
  return *loaded_;
}

void CredentialSource::Reject(const Credentials& rejected) {
  const MutexLock lock(&mutex_);
  const bool same = loaded_.has_value() &&
                    loaded_->secret_access_key == rejected.secret_access_key &&
                    loaded_->session_token == rejected.session_token;
  if (same) loaded_.reset();
}

absl::StatusOr<Credentials> CredentialSource::Load() const {
  const std::string id = EnvironmentOf("AWS_ACCESS_KEY_ID");
  const std::string secret = EnvironmentOf("AWS_SECRET_ACCESS_KEY");
  if (!id.empty() || !secret.empty()) {
    return CheckComplete({.access_key_id = id,
                          .secret_access_key = secret,
                          .session_token = EnvironmentOf("AWS_SESSION_TOKEN"),
                          .source = "the environment"});
  }
  const std::string token_file = EnvironmentOf("AWS_WEB_IDENTITY_TOKEN_FILE");
  if (!token_file.empty()) {
    return CallSts(token_file, EnvironmentOf("AWS_ROLE_ARN"),
                   EnvironmentOf("AWS_ROLE_SESSION_NAME"));
  }
  CKPTDB_ASSIGN_OR_RETURN(const AwsProfile profile, ReadAwsProfile());
  if (!profile.Value("web_identity_token_file").empty()) {
    return CallSts(profile.Value("web_identity_token_file"),
                   profile.Value("role_arn"),
                   profile.Value("role_session_name"));
  }
  if (!profile.Value("aws_access_key_id").empty()) {
    return CheckComplete(
        {.access_key_id = profile.Value("aws_access_key_id"),
         .secret_access_key = profile.Value("aws_secret_access_key"),
         .session_token = profile.Value("aws_session_token"),
         .source = absl::StrCat("profile \"", profile.name, "\"")});
  }
  if (!profile.Value("credential_process").empty()) return RunProcess(profile);
  return NoCredentials(profile);
}

absl::StatusOr<Credentials> CredentialSource::RunProcess(
    const AwsProfile& profile) const {
  const std::string source =
      absl::StrCat("credential_process of profile \"", profile.name, "\"");
  const absl::StatusOr<std::string> output = RunShell(
      profile.Value("credential_process"), kProcessLimit, http_->poll());
  if (!output.ok()) {
    return absl::Status(
        output.status().code(),
        absl::StrCat(source, " failed: ", output.status().message()));
  }
  const nlohmann::json document =
      nlohmann::json::parse(*output, nullptr, /*allow_exceptions=*/false);
  if (!document.is_object() ||
      document.value("Version", nlohmann::json()) != 1) {
    return absl::FailedPreconditionError(absl::StrCat(
        source, " did not write a JSON object with \"Version\": 1"));
  }
  CKPTDB_ASSIGN_OR_RETURN(const absl::Time expires,
                          ParseExpiry(TextOf(document, "Expiration"), source));
  return CheckComplete(
      {.access_key_id = TextOf(document, "AccessKeyId"),
       .secret_access_key = TextOf(document, "SecretAccessKey"),
       .session_token = TextOf(document, "SessionToken"),
       .expires = expires,
       .source = source});
}

absl::StatusOr<Credentials> CredentialSource::CallSts(
    const std::string& token_file, const std::string& role,
    const std::string& session) const {
  std::ifstream file(token_file);
  const std::string token(std::istreambuf_iterator<char>(file), {});
  if (token.empty() || role.empty()) {
    return absl::FailedPreconditionError(absl::StrCat(
        "a web identity needs a token and a role: ",
        token.empty()
            ? absl::StrCat("file ", token_file, " is empty or missing")
            : std::string("set AWS_ROLE_ARN")));
  }
  std::string endpoint = EnvironmentOf("AWS_ENDPOINT_URL_STS");
  if (endpoint.empty()) {
    endpoint = absl::StrCat("https://sts.", region_, ".amazonaws.com",
                            absl::StartsWith(region_, "cn-") ? ".cn" : "");
  }
  const std::string body = absl::StrCat(
      "Action=AssumeRoleWithWebIdentity&Version=2011-06-15&RoleArn=",
      PercentEncode(role),
      "&RoleSessionName=", PercentEncode(session.empty() ? "ckptdb" : session),
      "&WebIdentityToken=", PercentEncode(absl::StripAsciiWhitespace(token)));
  CKPTDB_ASSIGN_OR_RETURN(
      const HttpResponse response,
      http_->Send({.method = "POST",
                   .url = absl::StrCat(endpoint, "/"),
                   .headers = {"content-type: "
                               "application/x-www-form-urlencoded"},
                   .body = body}));
  if (response.status == 200) return ParseWebIdentity(response.body);
  const ServiceError error = ParseError(response.body);
  const std::string text =
      absl::StrCat("STS answered ", response.status, " ", error.code,
                   " for the web identity of role ", role,
                   "; check that the role trusts the token of ", token_file);
  return response.status >= 500 || response.status == 429 ||
                 error.code == "IDPCommunicationError"
             ? absl::UnavailableError(text)
             : absl::PermissionDeniedError(text);
}

}  // namespace ckptdb::internal::s3
