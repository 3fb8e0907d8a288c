// SPDX-License-Identifier: Apache-2.0
// remote/s3 with real services, each started once for the cases of a suite.
#include <chrono>
#include <thread>

#include "remote/probe/probe_object_store.h"
#include "remote/s3/http.h"
#include "remote/s3/open_s3.h"
#include "remote/s3/s3_xml.h"
#include "tests/remote/aws_environment.h"
#include "tests/remote/object_store_conformance.h"
#include "tests/remote/random_faults.h"
#include "tests/remote/real_service.h"

namespace ckptdb::testing {
namespace {

using Started = absl::StatusOr<std::unique_ptr<RealService>>;

// Sets the keys for as long as the process runs: clients read them later.
void UseTestKeys() {
  static AwsEnvironment& environment = *new AwsEnvironment;
  environment.SetKeys();
}

absl::StatusOr<std::unique_ptr<ObjectStore>> OpenOn(
    const Started& service, const RemoteOptions& options) {
  if (!service.ok()) return service.status();
  static const std::string kPrefix = internal::NewUuid();
  return internal::OpenS3((*service)->Url(kPrefix), options);
}

const Started& SharedSeaweedFs() {
  static const Started kService = RealService::SeaweedFs();
  return kService;
}

absl::StatusOr<std::unique_ptr<ObjectStore>> OpenOnSeaweedFs(
    const RemoteOptions& options) {
  UseTestKeys();
  return OpenOn(SharedSeaweedFs(), options);
}

absl::StatusOr<std::unique_ptr<ObjectStore>> OpenOnMoto(
    const RemoteOptions& options) {
  UseTestKeys();
  static const Started kService = RealService::Moto();
  return OpenOn(kService, options);
}

class S3ServicesTest : public ::testing::Test {
 protected:
  void SetUp() override { environment_.SetKeys(); }

  AwsEnvironment environment_;
};

TEST_F(S3ServicesTest, RefusesRclone) {
  const Started service = RealService::Rclone();
  if (absl::IsUnavailable(service.status())) {
    GTEST_SKIP() << service.status().message();
  }
  ASSERT_OK(service);
  ASSERT_OK_AND_ASSIGN(const std::unique_ptr<ObjectStore> store,
                       internal::OpenS3((*service)->Url("a"), {}));
  EXPECT_THAT(internal::ProbeObjectStore(*store),
              FailedPrecondition("ignores \"If-None-Match: *\"", "MinIO"));
}

TEST_F(S3ServicesTest, VerifiesTheCertificate) {
  Started service = RealService::MotoWithTls();
  if (absl::IsUnavailable(service.status())) {
    GTEST_SKIP() << service.status().message();
  }
  ASSERT_OK(service);
  environment_.Set("AWS_CA_BUNDLE", (*service)->ca());
  ASSERT_OK_AND_ASSIGN(const std::unique_ptr<ObjectStore> store,
                       internal::OpenS3((*service)->Url("a"), {}));
  EXPECT_OK(internal::ProbeObjectStore(*store));
  unsetenv("AWS_CA_BUNDLE");
  ASSERT_OK_AND_ASSIGN(const std::unique_ptr<ObjectStore> stranger,
                       internal::OpenS3((*service)->Url("a"), {}));
  EXPECT_THAT(stranger->Head("a"),
              FailedPrecondition("certificate", "AWS_CA_BUNDLE"));
}

// A write to the closed connection must not raise SIGPIPE, which would end the
// process.
TEST_F(S3ServicesTest, SurvivesAServiceThatEnds) {
  Started service = RealService::MotoWithTls();
  if (absl::IsUnavailable(service.status())) {
    GTEST_SKIP() << service.status().message();
  }
  ASSERT_OK(service);
  environment_.Set("AWS_CA_BUNDLE", (*service)->ca());
  ASSERT_OK_AND_ASSIGN(
      const std::unique_ptr<ObjectStore> store,
      internal::OpenS3((*service)->Url("a"),
                       {.deadline = absl::Milliseconds(300),
                        .bytes_per_second = uint64_t{2} << 20}));
  EXPECT_OK(store->PutIfAbsent("a", "x", "t1"));
  std::thread killer([&] {
    ASSERT_OK(internal::s3::Pause(std::chrono::milliseconds(300),
                                  [] { return absl::OkStatus(); }));
    service->reset();
  });
  const std::string bytes(uint64_t{2} << 20, 'x');
  EXPECT_THAT(store->PutIfAbsent("b", bytes, "t1"), Unavailable());
  killer.join();
}

TEST_F(S3ServicesTest, NamesWrongKeysAndBuckets) {
  const Started& service = SharedSeaweedFs();
  if (absl::IsUnavailable(service.status())) {
    GTEST_SKIP() << service.status().message();
  }
  ASSERT_OK(service);
  ASSERT_OK_AND_ASSIGN(
      const std::unique_ptr<ObjectStore> elsewhere,
      internal::OpenS3(
          absl::StrCat("s3://absent/a?endpoint=", (*service)->endpoint()), {}));
  EXPECT_THAT(elsewhere->Head("a"),
              FailedPrecondition("NoSuchBucket", "create bucket absent"));
  environment_.Set("AWS_SECRET_ACCESS_KEY", "another-secret");
  ASSERT_OK_AND_ASSIGN(const std::unique_ptr<ObjectStore> store,
                       internal::OpenS3((*service)->Url("a"), {}));
  const std::vector<absl::Status> refused = {
      store->PutIfAbsent("a", "x", "t1"), store->Head("a").status(),
      store->List("a/", "", 1).status(), store->Delete("a")};
  for (const absl::Status& status : refused) {
    EXPECT_THAT(status,
                PermissionDenied("403", Not(HasSubstr("another-secret")),
                                 Not(HasSubstr(kTestKeyId))));
  }
}

// Sends a signed request to the bucket and returns the answer's body.
std::string SendTo(const RealService& service, const std::string& method,
                   const std::string& target) {
  internal::s3::HttpClient http({});
  const auto answer =
      http.Send({.method = method,
                 .url = service.endpoint() + target,
                 .headers = {"x-amz-content-sha256: UNSIGNED-PAYLOAD"},
                 .signature = {.user = kTestKeyId,
                               .password = kTestSecret,
                               .scope = "aws:amz:us-east-1:s3"}});
  return answer.ok() ? answer->body : answer.status().ToString();
}

// Returns how many uploads below orphans/ were begun and not completed.
int CountUploads(const RealService& service) {
  const auto page = internal::s3::ParseUploadPage(
      SendTo(service, "GET", "/bucket/?prefix=orphans%2F&uploads="));
  return page.ok() ? static_cast<int>(page->uploads.size()) : -1;
}

void ExpectToAbortUploads(const Started& service, bool knows_the_time) {
  if (absl::IsUnavailable(service.status())) {
    GTEST_SKIP() << service.status().message();
  }
  ASSERT_OK(service);
  SendTo(**service, "POST", "/bucket/orphans/a?uploads=");
  EXPECT_EQ(CountUploads(**service), 1);
  ASSERT_OK_AND_ASSIGN(const std::unique_ptr<ObjectStore> store,
                       internal::OpenS3((*service)->Url("orphans"), {}));
  if (knows_the_time) {
    EXPECT_OK(store->AbortUploads("", absl::Now() - absl::Hours(1)));
    EXPECT_EQ(CountUploads(**service), 1);
  }
  EXPECT_OK(store->AbortUploads("other/", absl::Now() + absl::Hours(1)));
  EXPECT_EQ(CountUploads(**service), 1);
  EXPECT_OK(store->AbortUploads("", absl::Now() + absl::Hours(1)));
  EXPECT_EQ(CountUploads(**service), 0);
  EXPECT_THAT(store->Head("a"), NotFound());
}

TEST_F(S3ServicesTest, AbortsUploadsOnSeaweedFs) {
  ExpectToAbortUploads(SharedSeaweedFs(), /*knows_the_time=*/true);
}

TEST_F(S3ServicesTest, AbortsUploadsOnMoto) {
  // All of its uploads were begun in 2010.
  ExpectToAbortUploads(RealService::Moto(), /*knows_the_time=*/false);
}

// SeaweedFS lists a folder before a name that sorts before its '/'.
TEST_F(S3ServicesTest, RefusesAListThatIsNotInTheOrderOfBytes) {
  const Started& service = SharedSeaweedFs();
  if (absl::IsUnavailable(service.status())) {
    GTEST_SKIP() << service.status().message();
  }
  ASSERT_OK(service);
  ASSERT_OK_AND_ASSIGN(const std::unique_ptr<ObjectStore> store,
                       internal::OpenS3((*service)->Url("order"), {}));
  ASSERT_OK(store->PutIfAbsent("in/a/z", "x", "t1"));
  ASSERT_OK(store->PutIfAbsent("in/a-z", "x", "t2"));
  EXPECT_THAT(store->List("in/", "", 10),
              FailedPrecondition("order/in/a-z after order/in/a/z"));
}

TEST_F(S3ServicesTest, SurvivesAProxyThatFailsAtRandom) {
  const Started& service = SharedSeaweedFs();
  if (absl::IsUnavailable(service.status())) {
    GTEST_SKIP() << service.status().message();
  }
  ASSERT_OK(service);
  HttpServer proxy(PassOnTo((*service)->endpoint()));
  proxy.Intercept(RandomFaults(&proxy));
  ASSERT_OK_AND_ASSIGN(
      const std::unique_ptr<ObjectStore> store,
      internal::OpenS3(absl::StrCat("s3://bucket/a?endpoint=", proxy.url()),
                       {}));
  ExpectCallsToSucceed(*store, 10);
  const TempDir dir;
  const std::string path = dir.path() + "/file";
  const std::string bytes = RandomBytes(uint64_t{40} << 20);
  std::ofstream(path, std::ios::binary) << bytes;
  ASSERT_OK(store->PutFileIfAbsent("large", path, "t1"));
  EXPECT_THAT(store->PutFileIfAbsent("large", path, "t2"), AlreadyExists());
  constexpr uint64_t kPiece = uint64_t{8} << 20;
  std::string out(kPiece, '\0');
  for (uint64_t at = 0; at < bytes.size(); at += kPiece) {
    ASSERT_OK(store->Get("large", at, absl::MakeSpan(out.data(), kPiece)));
    EXPECT_TRUE(out == bytes.substr(at, kPiece)) << at;
  }
}

}  // namespace

INSTANTIATE_TEST_SUITE_P(SeaweedFs, ObjectStoreConformance,
                         ::testing::Values(StoreUnderTest{
                             .open = OpenOnSeaweedFs}));
INSTANTIATE_TEST_SUITE_P(Moto, ObjectStoreConformance,
                         ::testing::Values(StoreUnderTest{
                             .open = OpenOnMoto,
                             .decides_large_races = false}));

}  // namespace ckptdb::testing
