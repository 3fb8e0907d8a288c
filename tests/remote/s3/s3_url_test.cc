// SPDX-License-Identifier: Apache-2.0
// Readers and fetches of parts, of a remote in a bucket.
#include <string>

#include "db/base/url_stores.h"
#include "db/reader.h"
#include "db/store.h"
#include "remote/remote_store.h"
#include "remote/urls.h"
#include "tests/remote/s3/s3_fixture.h"
#include "tests/tools/sample_store.h"

namespace ckptdb::testing {
namespace {

constexpr char kBucketUrl[] = "s3://bucket/p";

class S3UrlTest : public S3Fixture {
 protected:
  void SetUp() override {
    environment_.Set("AWS_ENDPOINT_URL_S3", server_.url());
    EnableUrls();
    ASSERT_OK_AND_ASSIGN(store_, MakeBigDeltaStore(dir_.path() + "/store"));
    ASSERT_OK_AND_ASSIGN(remote_, OpenObjectStore(kBucketUrl));
    ASSERT_OK(PushStore(store_->path(), remote_.get()));
  }
  void TearDown() override { internal::SetUrlFunctions({}); }

  std::unique_ptr<Store> store_;
  std::unique_ptr<ObjectStore> remote_;
};

TEST_F(S3UrlTest, ReadsABucket) {
  ASSERT_OK_AND_ASSIGN(const auto reader, Reader::Open(kBucketUrl));
  EXPECT_EQ(reader->path(), kBucketUrl);
  ASSERT_OK_AND_ASSIGN(const auto step, reader->OpenStep(200));
  ASSERT_OK_AND_ASSIGN(const auto own, store_->OpenStep(200));
  EXPECT_EQ(step->LookupRow("t", 9900).value(),
            own->LookupRow("t", 9900).value());
  EXPECT_OK(step->Verify());
}

// A retry of the client goes unnoticed; other errors name the service.
TEST_F(S3UrlTest, RetriesAndReportsAsTheClient) {
  ASSERT_OK_AND_ASSIGN(const auto reader, Reader::Open(kBucketUrl));
  ASSERT_OK_AND_ASSIGN(const auto step, reader->OpenStep(200));
  Fail("GET", 2, S3ErrorAnswer(503, "SlowDown"));
  EXPECT_OK(step->LookupRow("t", 9900));
  Fail("GET", 100, S3ErrorAnswer(403, "AccessDenied"));
  EXPECT_THAT(step->LookupRow("t", 5),
              PermissionDenied("s3://bucket/p", "data/"));
}

TEST_F(S3UrlTest, FetchesParts) {
  FetchOptions options;
  options.step = 200;
  options.tables = {"t"};
  options.slices = {9900, 9901};
  const std::string fetched = dir_.path() + "/fetched";
  ASSERT_OK(FetchStore(remote_.get(), fetched, options));
  ASSERT_OK_AND_ASSIGN(const auto reader, Reader::Open(fetched));
  ASSERT_OK_AND_ASSIGN(const auto step, reader->OpenStep(200));
  ASSERT_OK_AND_ASSIGN(const auto own, store_->OpenStep(200));
  EXPECT_EQ(step->LookupRow("t", 9900).value(),
            own->LookupRow("t", 9900).value());
}

}  // namespace
}  // namespace ckptdb::testing
