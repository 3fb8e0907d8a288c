// SPDX-License-Identifier: Apache-2.0
// The conformance of remote/s3 over a service in memory.
#include "tests/remote/fake_s3.h"

#include "remote/s3/open_s3.h"
#include "tests/remote/aws_environment.h"
#include "tests/remote/object_store_conformance.h"

namespace ckptdb::testing {
namespace {

absl::StatusOr<std::unique_ptr<ObjectStore>> OpenOnFake(
    const RemoteOptions& options) {
  static FakeS3& service = *new FakeS3;
  static HttpServer& server = *new HttpServer(service.handler());
  // The keys are read later, at the first call.
  static AwsEnvironment& environment = *new AwsEnvironment;
  environment.SetKeys();
  return internal::OpenS3(
      absl::StrCat("s3://bucket/a/prefix?endpoint=", server.url()), options);
}

}  // namespace

INSTANTIATE_TEST_SUITE_P(FakeS3, ObjectStoreConformance,
                         ::testing::Values(StoreUnderTest{.open = OpenOnFake}));

}  // namespace ckptdb::testing
