// SPDX-License-Identifier: Apache-2.0
#include "remote/s3/s3_location.h"

#include "remote/s3/open_s3.h"
#include "tests/remote/aws_environment.h"
#include "tests/support/test.h"

namespace ckptdb::testing {
namespace {

using internal::s3::ParseS3Url;
using internal::s3::S3Location;

class S3LocationTest : public ::testing::Test {
 protected:
  AwsEnvironment environment_;
};

TEST_F(S3LocationTest, IsAtAmazonByDefault) {
  ASSERT_OK_AND_ASSIGN(const S3Location location,
                       ParseS3Url("s3://models/ctr/v1"));
  EXPECT_EQ(location.bucket, "models");
  EXPECT_EQ(location.prefix, "ctr/v1/");
  EXPECT_EQ(location.region, "us-east-1");
  EXPECT_EQ(location.base_url, "https://models.s3.us-east-1.amazonaws.com");
  EXPECT_EQ(location.name, "s3://models/ctr/v1");
}

TEST_F(S3LocationTest, TakesPrefixesWithAndWithoutSlash) {
  EXPECT_EQ(ParseS3Url("s3://models")->prefix, "");
  EXPECT_EQ(ParseS3Url("s3://models/")->prefix, "");
  EXPECT_EQ(ParseS3Url("s3://models/a/")->prefix, "a/");
}

TEST_F(S3LocationTest, HasBucketsWithDotsInThePath) {
  EXPECT_EQ(ParseS3Url("s3://models.ctr?region=cn-north-1")->base_url,
            "https://s3.cn-north-1.amazonaws.com.cn/models.ctr");
}

TEST_F(S3LocationTest, TakesTheFirstEndpointAndRegionThatAreSet) {
  environment_.Write(".aws/config",
                     "[default]\nregion = r5\nendpoint_url = http://e4\n");
  EXPECT_EQ(ParseS3Url("s3://models")->region, "r5");
  EXPECT_EQ(ParseS3Url("s3://models")->base_url, "http://e4/models");
  environment_.Set("AWS_DEFAULT_REGION", "r3");
  environment_.Set("AWS_ENDPOINT_URL", "http://e3");
  EXPECT_EQ(ParseS3Url("s3://models")->region, "r3");
  EXPECT_EQ(ParseS3Url("s3://models")->base_url, "http://e3/models");
  environment_.Set("AWS_REGION", "r2");
  environment_.Set("AWS_ENDPOINT_URL_S3", "http://e2:80/");
  EXPECT_EQ(ParseS3Url("s3://models")->region, "r2");
  EXPECT_EQ(ParseS3Url("s3://models")->base_url, "http://e2:80/models");
  ASSERT_OK_AND_ASSIGN(
      const S3Location location,
      ParseS3Url("s3://models/a?region=r1&endpoint=http%3A%2F%2Fe1"));
  EXPECT_EQ(location.region, "r1");
  EXPECT_EQ(location.base_url, "http://e1/models");
}

TEST_F(S3LocationTest, RefusesOtherUrls) {
  EXPECT_THAT(ParseS3Url("gs://models"), InvalidArgument("s3://bucket/prefix"));
  EXPECT_THAT(ParseS3Url("s3://"), InvalidArgument("the bucket is \"\""));
  EXPECT_THAT(ParseS3Url("s3://ab"), InvalidArgument("3 to 63"));
  EXPECT_THAT(ParseS3Url("s3://" + std::string(64, 'a')),
              InvalidArgument("3 to 63"));
  EXPECT_OK(ParseS3Url("s3://" + std::string(63, 'a')));
  EXPECT_THAT(ParseS3Url("s3://models/a//b"), InvalidArgument("\"a//b\""));
  EXPECT_THAT(ParseS3Url("s3://models/a b"), InvalidArgument("\"a b\""));
  EXPECT_THAT(ParseS3Url("s3://models?end=x"),
              InvalidArgument("\"end\"", "expected endpoint or region"));
  EXPECT_THAT(ParseS3Url("s3://models?endpoint=host:80"),
              InvalidArgument("\"host:80\"", "http://HOST:PORT"));
  EXPECT_THAT(ParseS3Url("s3://models?region=a/b"), InvalidArgument("\"a/b\""));
}

TEST_F(S3LocationTest, RepeatsNoPassword) {
  for (const char* url :
       {"s3://key:PASSWORD@models/a", "gs://key:PASSWORD@models",
        "s3://models?endpoint=http://key:PASSWORD@host",
        "s3://models?PASS=PASSWORD"}) {
    EXPECT_THAT(ParseS3Url(url), InvalidArgument(Not(HasSubstr("PASSWORD"))));
  }
}

TEST_F(S3LocationTest, RefusesOptionsOutOfRange) {
  EXPECT_THAT(internal::OpenS3("s3://models", {.connections = 0}),
              InvalidArgument("connections is 0", "1 to 256"));
  EXPECT_THAT(internal::OpenS3("s3://models", {.connections = 257}),
              InvalidArgument("connections is 257"));
  EXPECT_OK(internal::OpenS3("s3://models", {.connections = 256}));
  EXPECT_THAT(
      internal::OpenS3("s3://models", {.deadline = absl::ZeroDuration()}),
      InvalidArgument("deadline is 0"));
}

}  // namespace
}  // namespace ckptdb::testing
