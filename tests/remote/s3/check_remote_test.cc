// SPDX-License-Identifier: Apache-2.0
// CheckRemote with services that lack something.
#include "remote/check_remote.h"

#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "remote/s3/open_s3.h"
#include "tests/remote/fake_s3.h"
#include "tests/remote/s3/s3_fixture.h"
#include "tests/support/test.h"

namespace ckptdb::testing {
namespace {

using Result = RemoteCheck::Result;

class CheckRemoteTest : public S3Fixture {
 protected:
  CheckRemoteTest() { environment_.Set("AWS_ENDPOINT_URL_S3", server_.url()); }
  std::vector<RemoteCheck> Check(const std::string& url = "s3://bucket/p") {
    CheckRemoteOptions options;
    options.remote.deadline = absl::Milliseconds(500);
    options.speed_bytes = 100'000;
    auto checks = CheckRemote(url, options);
    EXPECT_OK(checks);
    return checks.ok() ? *checks : std::vector<RemoteCheck>();
  }
  // Names of all checks: "put", or "put!" for one that is not OK.
  static std::string Names(const std::vector<RemoteCheck>& checks) {
    std::vector<std::string> names;
    for (const RemoteCheck& check : checks) {
      names.push_back(check.name + (check.result == Result::kOk ? "" : "!"));
      EXPECT_EQ(check.remedy.empty(), check.result == Result::kOk);
      EXPECT_FALSE(check.observed.empty()) << check.name;
    }
    return absl::StrJoin(names, " ");
  }
  static RemoteCheck Find(const std::vector<RemoteCheck>& checks,
                          const std::string& name) {
    for (const RemoteCheck& check : checks) {
      if (check.name == name) return check;
    }
    ADD_FAILURE() << "no check " << name;
    return {};
  }
  // The service has other traits from now on.
  void Become(FakeS3* service) {
    server_.Intercept(
        [=](const ServerRequest& request) -> std::optional<ServerResponse> {
          return service->handler()(request);
        });
  }
};

constexpr char kAll[] =
    "credentials service bucket access put token range clock conditional_put "
    "list_order uploads delete speed content";

TEST_F(CheckRemoteTest, FindsNothingWrong) {
  const std::vector<RemoteCheck> checks = Check();
  EXPECT_EQ(Names(checks), kAll);
  EXPECT_EQ(Find(checks, "credentials").observed, "from the environment");
  EXPECT_EQ(Find(checks, "content").observed, "nothing was shipped here yet");
  EXPECT_THAT(Open()->List("probe/", "", 10).value(), IsEmpty());
  for (const RemoteCheck& check : checks) {
    EXPECT_THAT(check.observed + check.remedy,
                AllOf(Not(HasSubstr(kTestKeyId)), Not(HasSubstr(kTestSecret))));
  }
}

TEST_F(CheckRemoteTest, DeletesItsObjectsWhenCancelled) {
  int calls = 0;
  CheckRemoteOptions options;
  options.remote.cancelled = [&] { return ++calls == 0; };
  ASSERT_OK(CheckRemote("s3://bucket/p", options));
  const int all = calls;
  ASSERT_GT(all, 10);
  for (int last = 1; last < all; ++last) {
    calls = 0;
    options.remote.cancelled = [&] { return ++calls > last; };
    const auto checks = CheckRemote("s3://bucket/p", options);
    // The number of polls during a request varies between runs.
    if (!checks.ok()) {
      EXPECT_EQ(checks.status().code(), absl::StatusCode::kCancelled);
    }
    EXPECT_THAT(Open()->List("probe/", "", 10).value(), IsEmpty()) << last;
  }
}

TEST_F(CheckRemoteTest, NamesTheSourceOfCredentials) {
  unsetenv("AWS_ACCESS_KEY_ID");
  unsetenv("AWS_SECRET_ACCESS_KEY");
  const std::vector<RemoteCheck> none = Check();
  EXPECT_EQ(Names(none), "credentials!");
  EXPECT_THAT(none[0].observed, HasSubstr("no credentials"));
  environment_.Write(
      ".aws/config",
      "[default]\ncredential_process = echo '{\"Version\": 1, "
      "\"AccessKeyId\": \"id\", \"SecretAccessKey\": \"hidden\", "
      "\"SessionToken\": \"concealed\", "
      "\"Expiration\": \"2099-01-02T03:04:05Z\"}'\n");
  const std::vector<RemoteCheck> checks = Check();
  EXPECT_EQ(Names(checks), kAll);
  EXPECT_EQ(checks[0].observed,
            "from credential_process of profile \"default\", until 2099-01-02 "
            "03:04:05 UTC");
}

TEST_F(CheckRemoteTest, EndsWhereTheServiceCannotBeUsed) {
  EXPECT_EQ(Names(Check("s3://absent/p")), "credentials service bucket!");
  EXPECT_EQ(Names(Check("s3://bucket/p?endpoint=http://127.0.0.1:1")),
            "credentials service!");
  server_.Intercept(
      [](const ServerRequest&) { return S3ErrorAnswer(403, "AccessDenied"); });
  const std::vector<RemoteCheck> refused = Check();
  EXPECT_EQ(Names(refused), "credentials service access!");
  EXPECT_THAT(refused.back().observed, HasSubstr("s3:ListBucket"));
  server_.Intercept(
      [](const ServerRequest& request) -> std::optional<ServerResponse> {
        if (request.method != "PUT") return std::nullopt;
        return S3ErrorAnswer(403, "AccessDenied");
      });
  EXPECT_EQ(Names(Check()), "credentials service bucket access put!");
}

TEST_F(CheckRemoteTest, FindsAServiceThatOverwrites) {
  FakeS3 service({.ignores_conditions = true});
  Become(&service);
  const std::vector<RemoteCheck> checks = Check();
  EXPECT_EQ(
      Names(checks),
      absl::StrReplaceAll(kAll, {{"conditional_put", "conditional_put!"}}));
  const RemoteCheck found = Find(checks, "conditional_put");
  EXPECT_EQ(found.result, Result::kUnsafe);
  EXPECT_THAT(found.observed, HasSubstr("replaces the object"));
  EXPECT_THAT(found.remedy, HasSubstr("SeaweedFS"));
}

TEST_F(CheckRemoteTest, FindsAServiceWithoutRanges) {
  FakeS3 service({.ignores_ranges = true});
  Become(&service);
  EXPECT_EQ(Find(Check(), "range").result, Result::kUnsafe);
}

TEST_F(CheckRemoteTest, FindsAServiceWithoutMetadata) {
  server_.Intercept(
      [&](const ServerRequest& request) -> std::optional<ServerResponse> {
        if (request.method != "HEAD") return std::nullopt;
        ServerResponse answer = server_.Handle(request);
        answer.headers.erase("x-amz-meta-ckptdb-token");
        return answer;
      });
  EXPECT_EQ(Find(Check(), "token").result, Result::kUnsafe);
}

TEST_F(CheckRemoteTest, FindsAClockThatIsOff) {
  for (const int minutes : {-10, 10}) {
    server_.Intercept(
        [&](const ServerRequest& request) -> std::optional<ServerResponse> {
          if (request.method != "HEAD") return std::nullopt;
          ServerResponse answer = server_.Handle(request);
          if (answer.status != 200) return answer;
          answer.headers["Last-Modified"] = absl::FormatTime(
              "%a, %d %b %Y %H:%M:%S GMT", absl::Now() + absl::Minutes(minutes),
              absl::UTCTimeZone());
          return answer;
        });
    const RemoteCheck clock = Find(Check(), "clock");
    EXPECT_EQ(clock.result, Result::kMissing);
    EXPECT_THAT(clock.observed,
                AllOf(HasSubstr(" s "),
                      HasSubstr(minutes > 0 ? "ahead of" : "behind")));
    EXPECT_THAT(clock.remedy, HasSubstr("NTP"));
  }
}

TEST_F(CheckRemoteTest, FindsAListInAnotherOrder) {
  server_.Intercept(
      [&](const ServerRequest& request) -> std::optional<ServerResponse> {
        if (!request.HasParameter("start-after")) return std::nullopt;
        ServerRequest all = request;
        all.query = "list-type=2&max-keys=1&prefix=p%2Fprobe%2F";
        return server_.Handle(all);  // always the first
      });
  EXPECT_EQ(Find(Check(), "list_order").result, Result::kUnsafe);
}

TEST_F(CheckRemoteTest, RefusesBadUrls) {
  EXPECT_THAT(CheckRemote("nowhere"), InvalidArgument("file:///folder"));
  EXPECT_THAT(CheckRemote("s3://a"), InvalidArgument("bucket"));
  EXPECT_THAT(CheckRemote("file://" + dir_.path() + "/absent"),
              NotFound("/absent"));
  CheckRemoteOptions options;
  options.remote.cancelled = [] { return true; };
  EXPECT_THAT(CheckRemote("s3://bucket/p", options), Cancelled());
}

}  // namespace
}  // namespace ckptdb::testing
