// SPDX-License-Identifier: Apache-2.0
// Each kind of request with each kind of fault: a request or an answer that is
// lost, an answer that is cut or never comes, and 409, 412, 500 and 503.
#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "absl/time/clock.h"
#include "tests/remote/fake_s3.h"
#include "tests/remote/s3/s3_fixture.h"
#include "tests/support/test.h"

namespace ckptdb::testing {
namespace {

using internal::s3::kMinPartBytes;
using internal::s3::S3Store;

// A kind of request, and a call that sends one.
struct RequestKind {
  std::string name;
  std::string method;
  // A parameter of the query that this kind has, or the only one that requests
  // with this method have.
  std::string parameter;
  std::function<absl::Status(S3Store&, const std::string& large_file)> call;
  // The call's result after one answer 412, which only a put expects.
  absl::StatusCode after_412 = absl::StatusCode::kAlreadyExists;

  bool SendsFile() const {
    return method == "POST" || parameter == "partNumber";
  }
  bool Matches(const ServerRequest& request) const {
    if (request.method != method) return false;
    if (!parameter.empty()) return request.HasParameter(parameter);
    return request.query.empty();
  }
};

absl::Status Get(S3Store& store) {
  std::string out(4, '\0');
  const absl::Status status =
      store.Get("there", 2, absl::MakeSpan(out.data(), out.size()));
  EXPECT_TRUE(!status.ok() || out == "2345") << out;
  return status;
}

absl::Status List(S3Store& store) {
  const auto listed = store.List("in/", "", 10);
  EXPECT_TRUE(!listed.ok() || listed->size() == 2);
  return listed.status();
}

absl::Status Head(S3Store& store) {
  const auto info = store.Head("there");
  EXPECT_TRUE(!info.ok() || info->size == 10);
  return info.status();
}

absl::Status PutSmall(S3Store& store, const std::string& /*large_file*/) {
  return store.PutIfAbsent("new", "bytes", "t-new");
}
absl::Status PutLarge(S3Store& store, const std::string& large_file) {
  return store.PutFileIfAbsent("new", large_file, "t-new");
}
absl::Status Abort(S3Store& store, const std::string& /*large_file*/) {
  return store.AbortUploads("orphan/", absl::Now() + absl::Hours(1));
}

const std::vector<RequestKind>& Kinds() {
  static const auto* const kKinds = new std::vector<RequestKind>{
      // The object that the service saw was deleted since.
      {"Put", "PUT", "", PutSmall, absl::StatusCode::kUnavailable},
      {"Get", "GET", "", [](S3Store& store, auto&) { return Get(store); }},
      // A refused HEAD is repeated after a list has shown that all is well.
      {"Head", "HEAD", "", [](S3Store& store, auto&) { return Head(store); },
       absl::StatusCode::kOk},
      {"List", "GET", "list-type",
       [](S3Store& store, auto&) { return List(store); }},
      {"Delete", "DELETE", "",
       [](S3Store& store, auto&) { return store.Delete("there"); }},
      // Another upload is begun, because no object exists.
      {"BeginUpload", "POST", "uploads", PutLarge, absl::StatusCode::kOk},
      {"Part", "PUT", "partNumber", PutLarge, absl::StatusCode::kOk},
      {"CompleteUpload", "POST", "uploadId", PutLarge, absl::StatusCode::kOk},
      {"ListUploads", "GET", "uploads", Abort},
      {"AbortUpload", "DELETE", "uploadId", Abort}};
  return *kKinds;
}

class S3FaultKindsTest : public S3Fixture,
                         public ::testing::WithParamInterface<RequestKind> {
 protected:
  using Fault = std::function<ServerResponse(const ServerRequest&)>;

  // Puts what the calls use, and lets the first `times` requests of the kind
  // fail.
  absl::Status CallWith(const Fault& fault, int times,
                        const RemoteOptions& options = {}) {
    server_.Intercept(nullptr);
    const auto store = Open(options);
    EXPECT_OK(store->Delete("new"));
    EXPECT_OK(store->PutIfAbsent("there", "0123456789", "t1"));
    EXPECT_OK(store->PutIfAbsent("in/a", "x", "t1"));
    EXPECT_OK(store->PutIfAbsent("in/b", "x", "t1"));
    server_.Handle({"POST", "/bucket/p/orphan/a", "uploads="});
    failed_ = 0;
    server_.Intercept(
        [this, fault,
         times](const ServerRequest& request) -> std::optional<ServerResponse> {
          if (!GetParam().Matches(request) || failed_ == times) {
            return std::nullopt;
          }
          ++failed_;
          return fault(request);
        });
    return GetParam().call(*store, large_file_);
  }

  // The call has done its work.
  void ExpectDone() {
    server_.Intercept(nullptr);
    const auto store = Open();
    const std::string& name = GetParam().name;
    if (name == "Put") {
      EXPECT_EQ(Read(*store, "new", 0, 5).value(), "bytes");
    } else if (name == "Delete") {
      EXPECT_THAT(store->Head("there"), NotFound());
    } else if (name == "ListUploads" || name == "AbortUpload") {
      EXPECT_EQ(service_.uploads(), 0U);
    } else if (GetParam().SendsFile()) {
      ASSERT_OK_AND_ASSIGN(const ObjectInfo info, store->Head("new"));
      EXPECT_EQ(info.token, "t-new");
      EXPECT_EQ(info.size, 2 * kMinPartBytes + 1);
    }
    EXPECT_OK(store->AbortUploads("", absl::Now() + absl::Hours(1)));
  }

  const std::string large_file_ = GetParam().SendsFile() ? LargeFile() : "";
  int failed_ = 0;
};

TEST_P(S3FaultKindsTest, SucceedAfterFaultsThatPass) {
  const auto ends = [this](AnswerEnd end) {
    return [this, end](const ServerRequest& request) {
      ServerResponse answer = server_.Handle(request);
      answer.end = end;
      return answer;
    };
  };
  const std::pair<const char*, Fault> faults[] = {
      {"the request is lost",
       [](const ServerRequest&) {
         return ServerResponse{.end = AnswerEnd::kNothing};
       }},
      {"the answer is lost", ends(AnswerEnd::kNothing)},
      {"the answer is cut", ends(AnswerEnd::kCut)},
      {"409",
       [](const ServerRequest&) {
         return S3ErrorAnswer(409, "OperationAborted");
       }},
      {"500",
       [](const ServerRequest&) {
         return S3ErrorAnswer(500, "InternalError");
       }},
      {"503",
       [](const ServerRequest&) { return S3ErrorAnswer(503, "SlowDown"); }}};
  for (const auto& [name, fault] : faults) {
    EXPECT_OK(CallWith(fault, /*times=*/1)) << name;
    EXPECT_EQ(failed_, 1) << name;
    ExpectDone();
  }
}

TEST_P(S3FaultKindsTest, Answer412AsDocumented) {
  const absl::Status status = CallWith(
      [](const ServerRequest&) {
        return S3ErrorAnswer(412, "PreconditionFailed");
      },
      /*times=*/1);
  EXPECT_EQ(status.code(), GetParam().after_412) << status;
  EXPECT_EQ(failed_, 1);
  if (status.ok()) ExpectDone();
}

TEST_P(S3FaultKindsTest, EndAtTheDeadlineIfTheServiceStalls) {
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_THAT(CallWith(
                  [](const ServerRequest&) {
                    return ServerResponse{.end = AnswerEnd::kStall};
                  },
                  /*times=*/1000, {.deadline = absl::Milliseconds(400)}),
              Unavailable("no byte was sent"));
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(10));
  server_.Intercept(nullptr);
}

INSTANTIATE_TEST_SUITE_P(Requests, S3FaultKindsTest,
                         ::testing::ValuesIn(Kinds()),
                         [](const auto& row) { return row.param.name; });

}  // namespace
}  // namespace ckptdb::testing
