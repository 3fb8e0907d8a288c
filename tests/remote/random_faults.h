// SPDX-License-Identifier: Apache-2.0
// A proxy between a store and a service that loses, cuts and refuses at random.
#ifndef CKPTDB_TESTS_REMOTE_RANDOM_FAULTS_H_
#define CKPTDB_TESTS_REMOTE_RANDOM_FAULTS_H_

#include <memory>
#include <random>

#include "remote/object_store.h"
#include "remote/s3/http.h"
#include "tests/remote/http_server.h"
#include "tests/support/seed.h"
#include "tests/support/test.h"

namespace ckptdb::testing {

// Returns a handler that passes requests on to the service at `endpoint`, with
// the client's signature and host, which is signed.
inline HttpServer::Handler PassOnTo(const std::string& endpoint) {
  const auto http = std::make_shared<internal::s3::HttpClient>(RemoteOptions{});
  return [=](const ServerRequest& request) -> ServerResponse {
    internal::s3::HttpRequest sent = {
        .method = request.method,
        .url = absl::StrCat(endpoint, request.path,
                            request.query.empty() ? "" : "?", request.query),
        .body = request.body};
    for (const auto& [name, value] : request.headers) {
      const bool own = name.empty() || name == "content-length" ||
                       name == "expect" || name == "connection";
      if (!own) sent.headers.push_back(absl::StrCat(name, ": ", value));
    }
    const auto answer = http->Send(sent);
    if (!answer.ok()) return {.end = AnswerEnd::kNothing};
    ServerResponse response = {.status = answer->status,
                               .headers = answer->headers,
                               .body = answer->body};
    for (const char* own :
         {"content-length", "transfer-encoding", "connection", "keep-alive"}) {
      response.headers.erase(own);
    }
    if (request.method == "HEAD") {
      response.length = std::stoull("0" + answer->Header("content-length"));
    }
    return response;
  };
}

// Lets a third of the requests fail: before they are carried out, or after,
// which only the client cannot tell.
inline HttpServer::Interceptor RandomFaults(HttpServer* server) {
  return [server, random = std::mt19937_64(TestSeed())](
             const ServerRequest& request) mutable
         -> std::optional<ServerResponse> {
    ServerResponse answer;
    switch (random() % 18) {
      case 0:
        return S3ErrorAnswer(503, "SlowDown");
      case 1:
        return S3ErrorAnswer(500, "InternalError");
      case 2:
        return S3ErrorAnswer(409, "ConditionalRequestConflict");
      case 3:
        return ServerResponse{.end = AnswerEnd::kNothing};
      case 4:
        answer = server->Handle(request);
        answer.end = AnswerEnd::kNothing;
        return answer;
      case 5:
        answer = server->Handle(request);
        answer.end = AnswerEnd::kCut;
        return answer;
      default:
        return std::nullopt;
    }
  };
}

// Puts, gets, lists and deletes objects, and expects that all of it succeeds
// and that only one of two puts of a key wins.
inline void ExpectCallsToSucceed(ObjectStore& store, int rounds) {
  for (int i = 0; i < rounds; ++i) {
    const std::string key = absl::StrCat("chaos/", 1000 + i);
    const std::string bytes = absl::StrCat("the bytes of ", i);
    ASSERT_OK(store.PutIfAbsent(key, bytes, absl::StrCat("t", i)));
    EXPECT_THAT(store.PutIfAbsent(key, "others", absl::StrCat("o", i)),
                AlreadyExists());
    std::string out(bytes.size(), '\0');
    ASSERT_OK(store.Get(key, 0, absl::MakeSpan(out.data(), out.size())));
    EXPECT_EQ(out, bytes);
  }
  ASSERT_OK_AND_ASSIGN(const std::vector<ObjectInfo> all,
                       store.List("chaos/", "", 10'000));
  EXPECT_EQ(all.size(), static_cast<size_t>(rounds));
  for (const ObjectInfo& object : all) EXPECT_OK(store.Delete(object.key));
  EXPECT_THAT(store.List("chaos/", "", 1).value(), IsEmpty());
}

}  // namespace ckptdb::testing

#endif  // CKPTDB_TESTS_REMOTE_RANDOM_FAULTS_H_
