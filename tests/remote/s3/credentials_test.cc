// SPDX-License-Identifier: Apache-2.0
#include "remote/s3/credentials.h"

#include <algorithm>
#include <chrono>
#include <iterator>

#include "tests/remote/aws_environment.h"
#include "tests/remote/http_server.h"
#include "tests/support/test.h"

namespace ckptdb::testing {
namespace {

using internal::s3::Credentials;
using internal::s3::CredentialSource;
using internal::s3::HttpClient;
using internal::s3::Redact;

class CredentialsTest : public ::testing::Test {
 protected:
  absl::StatusOr<Credentials> Get() {
    return CredentialSource("eu-west-1", &http_).Get();
  }
  // Names a process that writes the text, and counts its runs in a file.
  void UseProcess(const std::string& text) {
    const std::string output = environment_.Write("output", text);
    runs_ = environment_.Write("runs", "");
    environment_.Write(".aws/config",
                       absl::StrCat("[default]\ncredential_process = echo >> ",
                                    runs_, "; cat ", output, "\n"));
  }
  int64_t Runs() const {
    std::ifstream file(runs_);
    return std::count(std::istreambuf_iterator<char>(file), {}, '\n');
  }

  AwsEnvironment environment_;
  HttpClient http_{RemoteOptions{}};
  std::string runs_;
};

TEST_F(CredentialsTest, AreTheEnvironments) {
  environment_.Write(".aws/credentials",
                     "[default]\naws_access_key_id = other\n"
                     "aws_secret_access_key = other\n");
  environment_.SetKeys();
  environment_.Set("AWS_SESSION_TOKEN", "token");
  ASSERT_OK_AND_ASSIGN(const Credentials credentials, Get());
  EXPECT_EQ(credentials.access_key_id, kTestKeyId);
  EXPECT_EQ(credentials.secret_access_key, kTestSecret);
  EXPECT_EQ(credentials.session_token, "token");
  EXPECT_EQ(credentials.expires, absl::InfiniteFuture());
}

TEST_F(CredentialsTest, AreTheProfiles) {
  environment_.Write(".aws/config",
                     "[profile train]\nregion = x\ns3 =\n  a = b\n"
                     "aws_access_key_id = of the config\n");
  environment_.Write(".aws/credentials",
                     "# comment\n[default]\naws_access_key_id = d\n"
                     "aws_secret_access_key = e\n\n[train]\n"
                     "aws_access_key_id=t\naws_secret_access_key =  u=v \n"
                     "aws_session_token = w\n");
  EXPECT_EQ(Get()->access_key_id, "d");
  environment_.Set("AWS_PROFILE", "train");
  ASSERT_OK_AND_ASSIGN(const Credentials credentials, Get());
  EXPECT_EQ(credentials.access_key_id, "t");
  EXPECT_EQ(credentials.secret_access_key, "u=v");
  EXPECT_EQ(credentials.session_token, "w");
  environment_.Set("AWS_PROFILE", "absent");
  EXPECT_THAT(Get(), FailedPrecondition("\"absent\"", ".aws/credentials"));
}

TEST_F(CredentialsTest, AreReadFromNamedFiles) {
  environment_.Set("AWS_SHARED_CREDENTIALS_FILE",
                   environment_.Write("elsewhere",
                                      "[default]\naws_access_key_id = a\n"
                                      "aws_secret_access_key = b\n"));
  EXPECT_EQ(Get()->access_key_id, "a");
}

TEST_F(CredentialsTest, NameTheRemedyWhenTheyAreMissing) {
  EXPECT_THAT(Get(),
              FailedPrecondition("AWS_ACCESS_KEY_ID", "~/.aws/credentials"));
  environment_.Write(".aws/config", "[default]\nsso_session = x\n");
  EXPECT_THAT(Get(), FailedPrecondition("sso_session", "credential_process"));
  environment_.Set("AWS_ACCESS_KEY_ID", kTestKeyId);
  EXPECT_THAT(Get(), FailedPrecondition("the environment", "only a part",
                                        Not(HasSubstr(kTestKeyId))));
}

TEST_F(CredentialsTest, AreThoseOfAProcess) {
  UseProcess(R"({"Version": 1, "AccessKeyId": "a", "SecretAccessKey": "b",
                 "SessionToken": "c", "Expiration": "2099-01-01T00:00:00Z"})");
  CredentialSource source("eu-west-1", &http_);
  for (int i = 0; i < 2; ++i) {
    ASSERT_OK_AND_ASSIGN(const Credentials credentials, source.Get());
    EXPECT_EQ(credentials.access_key_id, "a");
    EXPECT_EQ(credentials.secret_access_key, "b");
    EXPECT_EQ(credentials.session_token, "c");
    EXPECT_EQ(absl::ToUnixSeconds(credentials.expires), 4070908800);
  }
  EXPECT_EQ(Runs(), 1);
}

TEST_F(CredentialsTest, AreRenewedBeforeTheyExpire) {
  UseProcess(R"({"Version": 1, "AccessKeyId": "a", "SecretAccessKey": "b",
                 "Expiration": "2099-01-01T00:00:00Z"})");
  const absl::Time expires = absl::FromUnixSeconds(4070908800);
  absl::Time now = expires - absl::Hours(1);
  CredentialSource source("eu-west-1", &http_, [&] { return now; });
  EXPECT_OK(source.Get());
  now = expires - absl::Seconds(301);
  EXPECT_OK(source.Get());
  EXPECT_EQ(Runs(), 1);
  now = expires - absl::Seconds(300);
  EXPECT_OK(source.Get());
  EXPECT_EQ(Runs(), 2);
  // Those that last for less are renewed after half of the time.
  EXPECT_OK(source.Get());
  now = expires - absl::Seconds(151);
  EXPECT_OK(source.Get());
  EXPECT_EQ(Runs(), 2);
  now = expires - absl::Seconds(150);
  EXPECT_OK(source.Get());
  EXPECT_EQ(Runs(), 3);
  // Those at hand are used as long as they are valid.
  environment_.Write(".aws/config", "[default]\ncredential_process = false\n");
  now = expires - absl::Seconds(1);
  ASSERT_OK_AND_ASSIGN(const Credentials credentials, source.Get());
  EXPECT_EQ(credentials.access_key_id, "a");
  now = expires;
  EXPECT_THAT(source.Get(), Unavailable("exited with code 1"));
}

TEST_F(CredentialsTest, AreLoadedAgainAfterARejection) {
  UseProcess(R"({"Version": 1, "AccessKeyId": "a", "SecretAccessKey": "b"})");
  CredentialSource source("eu-west-1", &http_);
  ASSERT_OK_AND_ASSIGN(const Credentials first, source.Get());
  source.Reject({.access_key_id = "x", .secret_access_key = "y"});
  EXPECT_OK(source.Get());
  EXPECT_EQ(Runs(), 1);
  source.Reject(first);
  EXPECT_OK(source.Get());
  EXPECT_EQ(Runs(), 2);
}

TEST_F(CredentialsTest, RepeatNothingThatAProcessWrote) {
  environment_.Write(".aws/config",
                     "[default]\ncredential_process = echo SECRET; exit 3\n");
  EXPECT_THAT(Get(), Unavailable("exited with code 3", "\"default\"",
                                 Not(HasSubstr("SECRET"))));
  for (const char* text : {"SECRET", "[]", R"({"Version": 2, "a": "SECRET"})",
                           R"({"Version": 1, "AccessKeyId": "SECRET"})",
                           R"({"Version": 1, "AccessKeyId": "SECRET",
                               "SecretAccessKey": "SECRET",
                               "Expiration": "SECRET"})"}) {
    UseProcess(text);
    EXPECT_THAT(Get(), FailedPrecondition("credential_process",
                                          Not(HasSubstr("SECRET"))))
        << text;
  }
}

TEST_F(CredentialsTest, EndAProcessThatIsCancelled) {
  environment_.Write(".aws/config",
                     "[default]\ncredential_process = exec tail -f /dev/null");
  RemoteOptions options;
  int polls = 0;
  options.cancelled = [&] { return ++polls > 2; };
  HttpClient http(options);
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_THAT(CredentialSource("eu-west-1", &http).Get(), Cancelled());
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(5));
}

TEST_F(CredentialsTest, AreExchangedForAWebIdentity) {
  HttpServer sts([](const ServerRequest& request) -> ServerResponse {
    EXPECT_EQ(request.method, "POST");
    EXPECT_EQ(request.Header("authorization"), "");
    EXPECT_EQ(request.body,
              "Action=AssumeRoleWithWebIdentity&Version=2011-06-15"
              "&RoleArn=arn%3Aaws%3Aiam%3A%3A1%3Arole%2Fr"
              "&RoleSessionName=ckptdb&WebIdentityToken=JWT%2FTOKEN");
    return {.body =
                "<AssumeRoleWithWebIdentityResponse>"
                "<AssumeRoleWithWebIdentityResult><Credentials>"
                "<AccessKeyId>a</AccessKeyId>"
                "<SecretAccessKey>b</SecretAccessKey>"
                "<SessionToken>c</SessionToken>"
                "<Expiration>2099-01-01T00:00:00Z</Expiration>"
                "</Credentials></AssumeRoleWithWebIdentityResult>"
                "</AssumeRoleWithWebIdentityResponse>"};
  });
  environment_.Set("AWS_ENDPOINT_URL_STS", sts.url());
  environment_.Set("AWS_WEB_IDENTITY_TOKEN_FILE",
                   environment_.Write("token", "JWT/TOKEN\n"));
  EXPECT_THAT(Get(), FailedPrecondition("AWS_ROLE_ARN"));
  environment_.Set("AWS_ROLE_ARN", "arn:aws:iam::1:role/r");
  ASSERT_OK_AND_ASSIGN(const Credentials credentials, Get());
  EXPECT_EQ(credentials.access_key_id, "a");
  EXPECT_EQ(credentials.session_token, "c");
}

TEST_F(CredentialsTest, NameWhatStsRefuses) {
  ServerResponse answer = S3ErrorAnswer(403, "AccessDenied", "JWT");
  HttpServer sts([&](const ServerRequest&) { return answer; });
  environment_.Set("AWS_ENDPOINT_URL_STS", sts.url());
  environment_.Set("AWS_ROLE_ARN", "role");
  environment_.Set("AWS_WEB_IDENTITY_TOKEN_FILE",
                   environment_.Write("token", "JWT"));
  EXPECT_THAT(Get(), PermissionDenied("403 AccessDenied", "role role",
                                      Not(HasSubstr("JWT"))));
  answer = S3ErrorAnswer(503, "ServiceUnavailable");
  EXPECT_THAT(Get(), Unavailable("503"));
  environment_.Set("AWS_WEB_IDENTITY_TOKEN_FILE", "/nonexistent");
  EXPECT_THAT(Get(), FailedPrecondition("/nonexistent is empty or missing"));
}

TEST_F(CredentialsTest, AreRedacted) {
  const Credentials credentials = {.access_key_id = "ID",
                                   .secret_access_key = "SECRET",
                                   .session_token = "TOKEN"};
  EXPECT_EQ(Redact("a ID b SECRET c TOKEN", credentials), "a *** b *** c ***");
}

}  // namespace
}  // namespace ckptdb::testing
