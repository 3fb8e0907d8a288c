// SPDX-License-Identifier: Apache-2.0
#include "remote/s3/s3_xml.h"

#include "tests/support/test.h"

namespace ckptdb::testing {
namespace {

using internal::s3::CompletionOf;
using internal::s3::Credentials;
using internal::s3::ObjectPage;
using internal::s3::ParseError;
using internal::s3::ParseObjectPage;
using internal::s3::ParseUploadId;
using internal::s3::ParseUploadPage;
using internal::s3::ParseWebIdentity;
using internal::s3::ServiceError;
using internal::s3::UploadPage;

TEST(S3XmlTest, ReadsErrors) {
  const ServiceError error = ParseError(
      "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
      "<Error><Code>AuthorizationHeaderMalformed</Code>"
      "<Message>a &amp; b</Message><Region>eu-west-1</Region></Error>");
  EXPECT_EQ(error.code, "AuthorizationHeaderMalformed");
  EXPECT_EQ(error.message, "a & b");
  EXPECT_EQ(error.region, "eu-west-1");
  EXPECT_EQ(ParseError("<ErrorResponse xmlns=\"x\"><Error><Code>C</Code>"
                       "</Error></ErrorResponse>")
                .code,
            "C");
  for (const char* other :
       {"", "<html>", "<Other><Code>C</Code></Other>", "text", "<Error>"}) {
    EXPECT_EQ(ParseError(other).code, "") << other;
  }
}

TEST(S3XmlTest, ReadsLists) {
  ASSERT_OK_AND_ASSIGN(
      const ObjectPage page,
      ParseObjectPage("<ListBucketResult xmlns=\"http://s3\"><Name>b</Name>"
                      "<IsTruncated>true</IsTruncated>"
                      "<Contents><Key>a/&lt;b</Key><LastModified>"
                      "2026-11-26T12:00:00.000Z</LastModified>"
                      "<ETag>&quot;e&quot;</ETag><Size>12</Size></Contents>"
                      "</ListBucketResult>"));
  EXPECT_TRUE(page.truncated);
  ASSERT_THAT(page.objects, SizeIs(1));
  EXPECT_EQ(page.objects[0].key, "a/<b");
  EXPECT_EQ(page.objects[0].size, 12U);
  EXPECT_EQ(absl::ToUnixSeconds(page.objects[0].modified), 1795694400);
}

TEST(S3XmlTest, RefusesOtherDocumentsThanLists) {
  for (const char* text :
       {"", "<html></html>", "<ListBucketResult>", "{}",
        "<ListBucketResult><Contents><Key>a</Key></Contents>"
        "</ListBucketResult>",
        "<ListBucketResult><Contents><Key>a</Key><Size>-1</Size><LastModified>"
        "2026-11-26T12:00:00Z</LastModified></Contents></ListBucketResult>",
        "<ListBucketResult><Contents><Key>a</Key><Size>1</Size><LastModified>"
        "yesterday</LastModified></Contents></ListBucketResult>"}) {
    EXPECT_THAT(ParseObjectPage(text), DataLoss()) << text;
  }
}

TEST(S3XmlTest, ReadsUploads) {
  ASSERT_OK_AND_ASSIGN(
      const UploadPage page,
      ParseUploadPage("<ListMultipartUploadsResult>"
                      "<NextKeyMarker>k</NextKeyMarker>"
                      "<NextUploadIdMarker>i</NextUploadIdMarker>"
                      "<IsTruncated>true</IsTruncated><Upload><Key>a</Key>"
                      "<UploadId>u+1</UploadId>"
                      "<Initiated>2026-11-26T12:00:00Z</Initiated></Upload>"
                      "</ListMultipartUploadsResult>"));
  EXPECT_TRUE(page.truncated);
  EXPECT_EQ(page.next_key, "k");
  EXPECT_EQ(page.next_id, "i");
  ASSERT_THAT(page.uploads, SizeIs(1));
  EXPECT_EQ(page.uploads[0].id, "u+1");
  EXPECT_THAT(ParseUploadPage("<x/>"), DataLoss());
  EXPECT_EQ(ParseUploadId("<InitiateMultipartUploadResult><UploadId>u"
                          "</UploadId></InitiateMultipartUploadResult>")
                .value(),
            "u");
  EXPECT_THAT(ParseUploadId("<InitiateMultipartUploadResult/>"),
              DataLoss("<UploadId>"));
}

TEST(S3XmlTest, WritesCompletions) {
  EXPECT_EQ(CompletionOf({"\"a\"", "<b>"}),
            "<CompleteMultipartUpload>"
            "<Part><PartNumber>1</PartNumber><ETag>\"a\"</ETag></Part>"
            "<Part><PartNumber>2</PartNumber><ETag>&lt;b&gt;</ETag></Part>"
            "</CompleteMultipartUpload>");
}

TEST(S3XmlTest, ReadsWebIdentities) {
  const std::string head =
      "<AssumeRoleWithWebIdentityResponse><AssumeRoleWithWebIdentityResult>"
      "<Credentials>";
  const std::string tail =
      "</Credentials></AssumeRoleWithWebIdentityResult>"
      "</AssumeRoleWithWebIdentityResponse>";
  ASSERT_OK_AND_ASSIGN(
      const Credentials credentials,
      ParseWebIdentity(head +
                       "<AccessKeyId>id</AccessKeyId>"
                       "<SecretAccessKey>s</SecretAccessKey>"
                       "<SessionToken>t</SessionToken>"
                       "<Expiration>2026-11-26T12:00:00Z</Expiration>" +
                       tail));
  EXPECT_EQ(credentials.access_key_id, "id");
  EXPECT_EQ(credentials.secret_access_key, "s");
  EXPECT_EQ(credentials.session_token, "t");
  EXPECT_EQ(absl::ToUnixSeconds(credentials.expires), 1795694400);
  EXPECT_THAT(ParseWebIdentity(head + tail), DataLoss());
}

}  // namespace
}  // namespace ckptdb::testing
