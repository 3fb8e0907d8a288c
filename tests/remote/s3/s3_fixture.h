// SPDX-License-Identifier: Apache-2.0
// A store in a bucket of a service in memory, whose answers fail as a test
// says.
#ifndef CKPTDB_TESTS_REMOTE_S3_S3_FIXTURE_H_
#define CKPTDB_TESTS_REMOTE_S3_S3_FIXTURE_H_

#include <fstream>
#include <optional>

#include "remote/s3/multipart_put.h"
#include "remote/s3/s3_location.h"
#include "remote/s3/s3_store.h"
#include "tests/remote/aws_environment.h"
#include "tests/remote/fake_s3.h"
#include "tests/support/temp_dir.h"
#include "tests/support/test.h"

namespace ckptdb::testing {

class S3Fixture : public ::testing::Test {
 protected:
  S3Fixture() { environment_.SetKeys(); }

  std::unique_ptr<internal::s3::S3Store> Open(
      const RemoteOptions& options = {}) {
    return OpenUrl("s3://bucket/p", options);
  }
  std::unique_ptr<internal::s3::S3Store> OpenUrl(
      const std::string& url, const RemoteOptions& options = {}) {
    environment_.Set("AWS_ENDPOINT_URL_S3", server_.url());
    return std::make_unique<internal::s3::S3Store>(
        internal::s3::ParseS3Url(url).value(), options);
  }

  // Answers the first `times` requests with this method otherwise.
  void Fail(const std::string& method, int times,
            const ServerResponse& answer) {
    server_.Intercept([=, left = times](const ServerRequest& request) mutable
                      -> std::optional<ServerResponse> {
      if (request.method != method || left-- <= 0) return std::nullopt;
      return answer;
    });
  }
  // Carries out the first `times` requests with this method and parameter, but
  // loses their answers.
  void LoseAnswers(const std::string& method, const std::string& parameter,
                   int times) {
    server_.Intercept([this, method, parameter,
                       left = times](const ServerRequest& request) mutable
                      -> std::optional<ServerResponse> {
      if (request.method != method ||
          (!parameter.empty() && !request.HasParameter(parameter)) ||
          left-- <= 0) {
        return std::nullopt;
      }
      ServerResponse answer = server_.Handle(request);
      answer.end = AnswerEnd::kNothing;
      return answer;
    });
  }

  absl::StatusOr<std::string> Read(internal::s3::S3Store& store,
                                   const std::string& key, uint64_t offset,
                                   uint64_t count) {
    std::string out(count, '\0');
    const absl::Status status =
        store.Get(key, offset, absl::MakeSpan(out.data(), out.size()));
    if (!status.ok()) return status;
    return out;
  }

  std::string LargeFile(char byte = 'x') {
    const std::string path = dir_.path() + "/large";
    std::ofstream(path, std::ios::binary)
        << std::string(2 * internal::s3::kMinPartBytes + 1, byte);
    return path;
  }

  TempDir dir_;
  AwsEnvironment environment_;
  FakeS3 service_;
  HttpServer server_{service_.handler()};
};

}  // namespace ckptdb::testing

#endif  // CKPTDB_TESTS_REMOTE_S3_S3_FIXTURE_H_
