// SPDX-License-Identifier: Apache-2.0
// A service in memory that answers the requests of remote/s3 as S3 documents
// them, for tests that run everywhere. Checks no signature.
//
//   FakeS3 service;
//   HttpServer server(service.handler());
#ifndef CKPTDB_TESTS_REMOTE_FAKE_S3_H_
#define CKPTDB_TESTS_REMOTE_FAKE_S3_H_

#include <cstdint>
#include <map>
#include <mutex>
#include <string>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "tests/remote/http_server.h"

namespace ckptdb::testing {

class FakeS3 {
 public:
  static constexpr char kBucket[] = "bucket";
  // The service's differences from S3.
  struct Traits {
    bool ignores_conditions = false;  // like rclone's server
    bool ignores_ranges = false;
    bool answers_ranges_with_200 = false;
  };

  FakeS3() : FakeS3(Traits{}) {}
  explicit FakeS3(const Traits& traits) : traits_(traits) {}

  HttpServer::Handler handler() {
    return [this](const ServerRequest& request) { return Answer(request); };
  }
  uint64_t uploads() const;

 private:
  struct Object {
    std::string bytes;
    std::string token;
    absl::Time modified;
  };
  struct Upload {
    std::string key;
    std::string token;
    absl::Time initiated;
    std::map<int, std::string> parts = {};
  };

  ServerResponse Answer(const ServerRequest& request);
  ServerResponse AnswerBucket(const ServerRequest& request);
  ServerResponse AnswerKey(const ServerRequest& request,
                           const std::string& key);
  ServerResponse AnswerUpload(const ServerRequest& request,
                              const std::string& key);
  ServerResponse Put(const ServerRequest& request, const std::string& key,
                     Object object);
  ServerResponse Get(const ServerRequest& request, const Object& object) const;
  ServerResponse List(const ServerRequest& request) const;
  ServerResponse ListUploads(const ServerRequest& request) const;
  ServerResponse Complete(const ServerRequest& request);

  const Traits traits_;
  mutable std::mutex mutex_;
  std::map<std::string, Object> objects_;
  std::map<std::string, Upload> uploads_;  // by id
  int next_upload_ = 1;
};

}  // namespace ckptdb::testing

#endif  // CKPTDB_TESTS_REMOTE_FAKE_S3_H_
