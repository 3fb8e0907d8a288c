// SPDX-License-Identifier: Apache-2.0
// remote/s3 with a service that fails: answers that are lost, cut or late,
// refusals that pass and those that are final.
#include <atomic>
#include <chrono>
#include <stdexcept>
#include <thread>

#include "absl/strings/str_format.h"
#include "remote/probe/probe_object_store.h"
#include "tests/remote/fake_s3.h"
#include "tests/remote/random_faults.h"
#include "tests/remote/s3/s3_fixture.h"
#include "tests/support/on_threads.h"
#include "tests/support/test.h"

namespace ckptdb::testing {
namespace {

using internal::s3::kMinPartBytes;

using Answer = std::optional<ServerResponse>;
using Clock = std::chrono::steady_clock;

class S3FaultsTest : public S3Fixture {};

TEST_F(S3FaultsTest, SendsTheFewestRequests) {
  const auto store = Open();
  ASSERT_OK(store->PutIfAbsent("a", "0123", "t1"));
  EXPECT_OK(store->Head("a"));
  EXPECT_OK(Read(*store, "a", 1, 2));
  EXPECT_OK(store->List("x/", "", 10));
  EXPECT_OK(store->Delete("a"));
  EXPECT_THAT(
      server_.Requests(),
      ElementsAre(
          "PUT /bucket/p/a", "HEAD /bucket/p/a", "GET /bucket/p/a",
          "GET "
          "/bucket/"
          "?list-type=2&max-keys=10&prefix=p%2Fx%2F&start-after=p%2Fx%2F",
          "DELETE /bucket/p/a"));
  server_.ForgetRequests();
  ASSERT_OK(store->PutFileIfAbsent("b", LargeFile(), "t1"));
  EXPECT_EQ(server_.Requests().size(), 6U);
  EXPECT_EQ(server_.Count("HEAD /bucket/p/b"), 1);
  EXPECT_EQ(server_.Count("POST /bucket/p/b?uploads="), 1);
  EXPECT_EQ(server_.Count("PUT /bucket/p/b?partNumber="), 3);
  EXPECT_EQ(server_.Count("POST /bucket/p/b?uploadId="), 1);
}

TEST_F(S3FaultsTest, RetriesRefusalsThatPass) {
  const auto store = Open();
  ASSERT_OK(store->PutIfAbsent("a", "0123", "t1"));
  for (const int status : {408, 409, 429, 500, 502, 503, 504}) {
    Fail("GET", 2, S3ErrorAnswer(status, "Some"));
    server_.ForgetRequests();
    EXPECT_OK(Read(*store, "a", 0, 4)) << status;
    EXPECT_EQ(server_.Count("GET"), 3) << status;
  }
  Fail("GET", 1, S3ErrorAnswer(400, "RequestTimeout"));
  EXPECT_OK(Read(*store, "a", 0, 4));
}

TEST_F(S3FaultsTest, ReportsWhyItRepeatsARequest) {
  std::vector<absl::Status> reasons;
  RemoteOptions options;
  options.on_retry = [&](const absl::Status& error) {
    reasons.push_back(error);
  };
  const auto store = Open(options);
  Fail("GET", 2, S3ErrorAnswer(503, "SlowDown", "the words"));
  EXPECT_OK(store->List("a/", "", 1));
  EXPECT_THAT(reasons,
              ElementsAre(Unavailable("GET", "503 SlowDown: the words"),
                          Unavailable("503 SlowDown")));
}

TEST_F(S3FaultsTest, RetriesLostAndCutAnswers) {
  const auto store = Open();
  ASSERT_OK(store->PutIfAbsent("a", "0123", "t1"));
  Fail("GET", 2, {.end = AnswerEnd::kNothing});
  EXPECT_EQ(Read(*store, "a", 0, 4).value(), "0123");
  Fail("GET", 2,
       {.status = 206,
        .headers = {{"Content-Range", "bytes 0-3/4"}},
        .body = "0123",
        .end = AnswerEnd::kCut});
  server_.ForgetRequests();
  EXPECT_EQ(Read(*store, "a", 0, 4).value(), "0123");
  EXPECT_EQ(server_.Count("GET"), 3);
}

TEST_F(S3FaultsTest, WaitsAsLongAsTheServiceAsks) {
  const auto store = Open();
  ServerResponse answer = S3ErrorAnswer(503, "SlowDown");
  answer.headers["Retry-After"] = "1";
  Fail("GET", 1, answer);
  const Clock::time_point begin = Clock::now();
  EXPECT_OK(store->List("a/", "", 1));
  EXPECT_GE(Clock::now() - begin, std::chrono::seconds(1));
}

TEST_F(S3FaultsTest, GivesUpAtTheDeadline) {
  const auto store = Open({.deadline = absl::Milliseconds(300)});
  Fail("PUT", 1000, S3ErrorAnswer(500, "InternalError", "the words"));
  const Clock::time_point begin = Clock::now();
  EXPECT_THAT(store->PutIfAbsent("a", "x", "t1"),
              Unavailable("PUT p/a", "no success until the deadline", "tries",
                          "500 InternalError: the words"));
  EXPECT_LT(Clock::now() - begin, std::chrono::seconds(5));
  EXPECT_GT(server_.Count("PUT"), 1);
}

TEST_F(S3FaultsTest, GivesUpWhenNobodyListens) {
  const auto store = OpenUrl("s3://bucket/p?endpoint=http://127.0.0.1:1",
                             {.deadline = absl::Milliseconds(300)});
  EXPECT_THAT(store->Head("a"), Unavailable("127.0.0.1"));
}

TEST_F(S3FaultsTest, CutsStallsOffAtTheDeadline) {
  const auto store = Open({.deadline = absl::Milliseconds(300)});
  Fail("GET", 1000, {.end = AnswerEnd::kStall});
  const Clock::time_point begin = Clock::now();
  EXPECT_THAT(Read(*store, "a", 0, 4), Unavailable("no byte was sent"));
  EXPECT_LT(Clock::now() - begin, std::chrono::seconds(5));
}

TEST_F(S3FaultsTest, IsCancelledWithinASecond) {
  std::atomic<bool> cancelled = false;
  RemoteOptions options;
  options.cancelled = [&] { return cancelled.load(); };
  const auto store = Open(options);
  for (const ServerResponse& answer : {ServerResponse{.end = AnswerEnd::kStall},
                                       S3ErrorAnswer(503, "SlowDown")}) {
    cancelled = false;
    std::atomic<bool> arrived = false;
    server_.Intercept([&](const ServerRequest&) -> Answer {
      arrived = true;
      return answer;
    });
    Clock::time_point begin;
    std::thread canceller([&] {
      while (!arrived) std::this_thread::yield();
      begin = Clock::now();
      cancelled = true;
    });
    EXPECT_THAT(store->Head("a"), Cancelled());
    canceller.join();
    EXPECT_LT(Clock::now() - begin, std::chrono::seconds(1));
  }
}

// The function may be slow, as one of Python is.
TEST_F(S3FaultsTest, AsksSeldomWhetherItIsCancelled) {
  std::atomic<int> asked = 0;
  RemoteOptions options;
  options.cancelled = [&] {
    ++asked;
    return false;
  };
  options.bytes_per_second = 4 * kMinPartBytes;
  const Clock::time_point begin = Clock::now();
  ASSERT_OK(Open(options)->PutFileIfAbsent("a", LargeFile(), "t1"));
  const std::chrono::duration<double> seconds = Clock::now() - begin;
  // Six requests, on up to three threads at a time.
  EXPECT_LE(asked, 6 * 5 + 3 * 2 * 11 * (seconds.count() + 1));
}

TEST_F(S3FaultsTest, ReportsAnExceptionOfTheCallersFunction) {
  RemoteOptions options;
  options.cancelled = []() -> bool { throw std::runtime_error("the words"); };
  EXPECT_THAT(Open(options)->Head("a"), Internal("the words"));
}

// The put was done, and the retry is refused because of it.
TEST_F(S3FaultsTest, KnowsAPutWhoseAnswerWasLost) {
  const auto store = Open();
  LoseAnswers("PUT", "", 1);
  EXPECT_OK(store->PutIfAbsent("a", "mine", "t1"));
  EXPECT_EQ(server_.Count("PUT"), 2);
  EXPECT_EQ(server_.Count("HEAD"), 1);
  EXPECT_EQ(Read(*store, "a", 0, 4).value(), "mine");
}

TEST_F(S3FaultsTest, ReportsAnObjectThatVanished) {
  const auto store = Open();
  Fail("PUT", 1, S3ErrorAnswer(412, "PreconditionFailed"));
  EXPECT_THAT(store->PutIfAbsent("a", "x", "t1"),
              Unavailable("was deleted since"));
  EXPECT_OK(store->PutIfAbsent("a", "x", "t1"));
}

// Another put came first, which the existence of the object does not tell.
TEST_F(S3FaultsTest, KnowsAPutThatAnotherOneOvertook) {
  const auto store = Open();
  const auto other = Open();
  bool first = true;
  server_.Intercept([&](const ServerRequest& request) -> Answer {
    if (request.method != "PUT" || !first) return std::nullopt;
    first = false;
    ServerRequest theirs = request;
    theirs.headers["x-amz-meta-ckptdb-token"] = "t2";
    theirs.body = "theirs";
    server_.Handle(theirs);
    return ServerResponse{.end = AnswerEnd::kNothing};
  });
  EXPECT_THAT(store->PutIfAbsent("a", "mine", "t1"), AlreadyExists("p/a"));
  EXPECT_EQ(Read(*store, "a", 0, 6).value(), "theirs");
}

TEST_F(S3FaultsTest, NamesTheRemedyOfFinalErrors) {
  struct {
    ServerResponse answer;
    absl::StatusCode code;
    const char* words;
  } const cases[] = {
      {S3ErrorAnswer(403, "AccessDenied"), absl::StatusCode::kPermissionDenied,
       "s3:ListBucket"},
      {S3ErrorAnswer(403, "InvalidAccessKeyId"),
       absl::StatusCode::kPermissionDenied, "check the access key"},
      {S3ErrorAnswer(403, "RequestTimeTooSkewed"),
       absl::StatusCode::kPermissionDenied, "set this machine's clock"},
      {S3ErrorAnswer(400, "InvalidRequest"),
       absl::StatusCode::kFailedPrecondition, "400 InvalidRequest: refused"},
      {S3ErrorAnswer(404, "NoSuchBucket"),
       absl::StatusCode::kFailedPrecondition, "create bucket bucket"},
      {S3ErrorAnswer(501, "NotImplemented"),
       absl::StatusCode::kFailedPrecondition, "501 NotImplemented"},
      {{.status = 301, .headers = {{"x-amz-bucket-region", "eu-west-1"}}},
       absl::StatusCode::kFailedPrecondition,
       "the bucket is in region eu-west-1, not in us-east-1; set AWS_REGION"}};
  const auto store = Open();
  for (const auto& each : cases) {
    server_.Intercept([&](const ServerRequest&) { return each.answer; });
    server_.ForgetRequests();
    EXPECT_THAT(store->PutIfAbsent("a", "x", "t1"),
                StatusIs(each.code, HasSubstr(each.words)));
    EXPECT_EQ(server_.Requests().size(), 1U);
    EXPECT_THAT(Read(*store, "a", 0, 1),
                StatusIs(each.code, HasSubstr(each.words)));
  }
}

// The answer to HEAD has no body that tells why.
TEST_F(S3FaultsTest, TellsAMissingBucketFromAMissingObject) {
  EXPECT_THAT(Open()->Head("a"), NotFound("p/a"));
  EXPECT_EQ(server_.Count("GET"), 1);
  EXPECT_THAT(OpenUrl("s3://absent/p")->Head("a"),
              FailedPrecondition("NoSuchBucket", "create bucket absent"));
  const auto store = Open();
  EXPECT_OK(store->List("a/", "", 1));
  server_.ForgetRequests();
  EXPECT_THAT(store->Head("a"), NotFound("p/a"));
  EXPECT_EQ(server_.Requests().size(), 1U);
}

TEST_F(S3FaultsTest, LoadsExpiredCredentialsAgain) {
  unsetenv("AWS_ACCESS_KEY_ID");
  unsetenv("AWS_SECRET_ACCESS_KEY");
  const auto write = [&](const std::string& token) {
    environment_.Write(
        ".aws/credentials",
        absl::StrCat("[default]\naws_access_key_id = ", kTestKeyId,
                     "\naws_secret_access_key = ", kTestSecret,
                     "\naws_session_token = ", token, "\n"));
  };
  write("old");
  const auto store = Open();
  ASSERT_OK(store->PutIfAbsent("a", "x", "t1"));
  server_.Intercept([&](const ServerRequest& request) -> Answer {
    if (request.Header("x-amz-security-token") == "new") return std::nullopt;
    write("new");
    // S3 answers HEAD with 400, and without a body.
    return S3ErrorAnswer(400, "ExpiredToken",
                         request.Header("x-amz-security-token"));
  });
  EXPECT_OK(store->Head("a"));
  EXPECT_OK(Read(*store, "a", 0, 1));
}

TEST_F(S3FaultsTest, RepeatsNoCredentials) {
  environment_.Set("AWS_SESSION_TOKEN", "TheSessionToken");
  const auto store = Open({.deadline = absl::Milliseconds(100)});
  for (const char* code : {"ExpiredToken", "AccessDenied", "InternalError"}) {
    server_.Intercept([&](const ServerRequest& request) -> Answer {
      return S3ErrorAnswer(
          absl::string_view(code) == "InternalError" ? 500 : 403, code,
          absl::StrCat(request.Header("authorization"), " ", kTestSecret, " ",
                       request.Header("x-amz-security-token")));
    });
    const std::vector<absl::Status> errors = {
        store->PutIfAbsent("a", "x", "t1"),
        store->Head("a").status(),
        Read(*store, "a", 0, 1).status(),
        store->List("a/", "", 1).status(),
        store->Delete("a"),
        store->AbortUploads("a/", absl::Now())};
    for (const absl::Status& error : errors) {
      EXPECT_FALSE(error.ok());
      for (const char* secret : {kTestKeyId, kTestSecret, "TheSessionToken"}) {
        EXPECT_THAT(error.ToString(), Not(HasSubstr(secret)));
      }
    }
  }
  EXPECT_THAT(store->Name(), Not(HasSubstr(kTestKeyId)));
}

TEST_F(S3FaultsTest, SignsWhatItSends) {
  environment_.Set("AWS_SESSION_TOKEN", "token");
  const auto store = Open();
  server_.Intercept([&](const ServerRequest& request) -> Answer {
    EXPECT_THAT(
        request.Header("authorization"),
        AllOf(HasSubstr("AWS4-HMAC-SHA256 Credential="), HasSubstr(kTestKeyId),
              HasSubstr("/us-east-1/s3/aws4_request"),
              HasSubstr("host;if-none-match;x-amz-content-sha256;x-amz-date;"
                        "x-amz-meta-ckptdb-token;x-amz-security-token")));
    return std::nullopt;
  });
  EXPECT_OK(store->PutIfAbsent("a", "x", "t1"));
}

TEST_F(S3FaultsTest, TakesRangesWithStatus200) {
  FakeS3 service({.answers_ranges_with_200 = true});
  server_.Intercept([&](const ServerRequest& request) -> Answer {
    return service.handler()(request);
  });
  const auto store = Open();
  ASSERT_OK(store->PutIfAbsent("a", "0123456789", "t1"));
  EXPECT_EQ(Read(*store, "a", 3, 4).value(), "3456");
}

TEST_F(S3FaultsTest, RefusesServicesWithoutRanges) {
  FakeS3 service({.ignores_ranges = true});
  server_.Intercept([&](const ServerRequest& request) -> Answer {
    return service.handler()(request);
  });
  const auto store = Open();
  ASSERT_OK(store->PutIfAbsent("a", "0123456789", "t1"));
  EXPECT_THAT(Read(*store, "a", 3, 4),
              FailedPrecondition("ranged gets", "Content-Range"));
  EXPECT_THAT(Read(*store, "a", 0, 4), FailedPrecondition("ranged gets"));
  EXPECT_EQ(Read(*store, "a", 0, 10).value(), "0123456789");
}

TEST_F(S3FaultsTest, ReportsAnswersOfAnotherLength) {
  const auto store = Open();
  const auto answers = {
      ServerResponse{.status = 206,
                     .headers = {{"Content-Range", "bytes 0-3/10"}},
                     .body = "012"},
      ServerResponse{.status = 206,
                     .headers = {{"Content-Range", "bytes 0-3/10"}},
                     .body = "01234"},
      ServerResponse{.status = 206,
                     .headers = {{"Content-Range", "bytes 0-2/10"}},
                     .body = "012"},
      ServerResponse{.status = 206,
                     .headers = {{"Content-Range", "bytes 1-4/10"}},
                     .body = "1234"},
      ServerResponse{.status = 206,
                     .headers = {{"Content-Range", "lines 0-3"}},
                     .body = "0123"}};
  for (const ServerResponse& answer : answers) {
    server_.Intercept([&](const ServerRequest&) { return answer; });
    EXPECT_THAT(Read(*store, "a", 0, 4), DataLoss("expected 4 bytes at 0"));
  }
}

TEST_F(S3FaultsTest, ListsPageAfterPage) {
  const auto store = Open({.connections = 16});
  RunOnThreads(16, [&](uint32_t thread) {
    for (uint32_t i = thread; i < 2500; i += 16) {
      ASSERT_OK(store->PutIfAbsent(absl::StrFormat("a/%04d", i), "x", "t1"));
    }
  });
  server_.ForgetRequests();
  ASSERT_OK_AND_ASSIGN(const std::vector<ObjectInfo> all,
                       store->List("a/", "", 10'000));
  ASSERT_THAT(all, SizeIs(2500));
  for (size_t i = 0; i < all.size(); ++i) {
    ASSERT_EQ(all[i].key, absl::StrFormat("a/%04d", i));
  }
  EXPECT_EQ(server_.Count("GET"), 3);
  ASSERT_OK_AND_ASSIGN(const std::vector<ObjectInfo> some,
                       store->List("a/", "a/0499", 1500));
  ASSERT_THAT(some, SizeIs(1500));
  EXPECT_EQ(some.back().key, "a/1999");
  EXPECT_EQ(server_.Count("GET"), 5);
}

TEST_F(S3FaultsTest, RefusesListsInAnotherOrder) {
  const auto store = Open();
  const auto list = [](std::initializer_list<const char*> keys) {
    std::string body = "<ListBucketResult>";
    for (const char* key : keys) {
      absl::StrAppend(&body, "<Contents><Key>", key,
                      "</Key><LastModified>2026-11-26T12:00:00Z</LastModified>"
                      "<Size>1</Size></Contents>");
    }
    return ServerResponse{.body = body + "</ListBucketResult>"};
  };
  ServerResponse answer = list({"p/a/b/z", "p/a/b-z"});
  server_.Intercept([&](const ServerRequest&) { return answer; });
  EXPECT_THAT(store->List("a/", "", 10),
              FailedPrecondition("p/a/b-z after p/a/b/z", "order"));
  answer = list({"p/b/c"});
  EXPECT_THAT(store->List("a/", "", 10), FailedPrecondition("p/b/c"));
  // The mark of an empty folder is no object.
  answer = list({"p/a/", "p/a/b"});
  EXPECT_THAT(store->List("a/", "", 10).value(), SizeIs(1));
}

// SeaweedFS lists the mark of a folder alone, as if there were no more keys.
TEST_F(S3FaultsTest, ListsBeginAfterTheMarkOfTheFolder) {
  const auto store = Open();
  ASSERT_OK(store->PutIfAbsent("a/b", "x", "t1"));
  server_.Intercept([](const ServerRequest& request) {
    const bool from_mark = request.Parameter("start-after") < "p/a/";
    const ServerResponse mark = {
        .body =
            "<ListBucketResult><IsTruncated>false</IsTruncated>"
            "<Contents><Key>p/a/</Key><LastModified>2026-11-26T12:00:00Z"
            "</LastModified><Size>0</Size></Contents></ListBucketResult>"};
    return from_mark ? std::optional(mark) : std::nullopt;
  });
  EXPECT_THAT(store->List("a/", "", 1).value(), SizeIs(1));
}

TEST_F(S3FaultsTest, HalvesItsConnectionsWhenToldToSlowDown) {
  const auto store = Open({.connections = 8});
  ASSERT_OK(store->PutIfAbsent("a", "x", "t1"));
  Fail("GET", 1, S3ErrorAnswer(503, "SlowDown"));
  EXPECT_OK(Read(*store, "a", 0, 1));
  EXPECT_EQ(store->connection_limit(), 4);
  for (int i = 0; i < 40; ++i) EXPECT_OK(Read(*store, "a", 0, 1));
  EXPECT_EQ(store->connection_limit(), 8);
}

TEST_F(S3FaultsTest, UsesNoMoreConnectionsThanItMay) {
  const auto store = Open({.connections = 3});
  RunOnThreads(12, [&](uint32_t i) {
    for (int n = 0; n < 5; ++n) {
      EXPECT_OK(store->PutIfAbsent(absl::StrCat("a", i, "-", n), "x", "t1"));
    }
  });
  EXPECT_LE(server_.most_at_once(), 3);
}

TEST_F(S3FaultsTest, StaysWithinTheLimitOfBytes) {
  constexpr uint64_t kRate = uint64_t{64} << 20;
  const auto store = Open({.bytes_per_second = kRate});
  const std::string path = LargeFile();
  const double bytes = 2 * kMinPartBytes + 1;
  Clock::time_point begin = Clock::now();
  ASSERT_OK(store->PutFileIfAbsent("a", path, "t1"));
  std::chrono::duration<double> seconds = Clock::now() - begin;
  EXPECT_GE(seconds.count(), 0.9 * bytes / kRate);
  begin = Clock::now();
  RunOnThreads(2, [&](uint32_t i) {
    EXPECT_OK(Read(*store, "a", i * kMinPartBytes, kMinPartBytes));
  });
  seconds = Clock::now() - begin;
  EXPECT_GE(seconds.count(), 0.9 * 2 * kMinPartBytes / kRate);
}

TEST_F(S3FaultsTest, SurvivesFaultsAtRandom) {
  server_.Intercept(RandomFaults(&server_));
  const auto store = Open();
  ExpectCallsToSucceed(*store, 20);
  ASSERT_OK(store->PutFileIfAbsent("large", LargeFile(), "t1"));
  EXPECT_THAT(store->PutFileIfAbsent("large", LargeFile(), "t2"),
              AlreadyExists());
}

TEST_F(S3FaultsTest, ProbesForConditionalPuts) {
  EXPECT_OK(internal::ProbeObjectStore(*Open()));
  FakeS3 service({.ignores_conditions = true});
  server_.Intercept([&](const ServerRequest& request) -> Answer {
    return service.handler()(request);
  });
  EXPECT_THAT(internal::ProbeObjectStore(*Open()),
              FailedPrecondition("s3://bucket/p", "ignores \"If-None-Match"));
  EXPECT_THAT(Open()->List("probe/", "", 10).value(), IsEmpty());
}

TEST_F(S3FaultsTest, ProbesForMetadata) {
  server_.Intercept([&](const ServerRequest& request) -> Answer {
    if (request.method != "HEAD") return std::nullopt;
    ServerResponse answer = server_.Handle(request);
    answer.headers.erase("x-amz-meta-ckptdb-token");
    return answer;
  });
  EXPECT_THAT(internal::ProbeObjectStore(*Open()),
              FailedPrecondition("metadata"));
}

TEST_F(S3FaultsTest, RefusesTokensThatAreNoHeader) {
  const auto store = Open();
  EXPECT_THAT(store->PutIfAbsent("a", "x", "a b"), InvalidArgument("\"a b\""));
  EXPECT_THAT(store->PutIfAbsent("a", "x", "a\r\nb: c"), InvalidArgument());
  EXPECT_THAT(store->PutIfAbsent("a", "x", std::string(65, 'a')),
              InvalidArgument("at most 64"));
  EXPECT_OK(store->PutIfAbsent("a", "x", std::string(64, 'a')));
}

}  // namespace
}  // namespace ckptdb::testing
