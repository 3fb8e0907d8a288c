// SPDX-License-Identifier: Apache-2.0
// Files that remote/s3 puts in parts, with a service that fails.
#include <filesystem>

#include "tests/remote/s3/s3_fixture.h"

namespace ckptdb::testing {
namespace {

using internal::s3::kMaxParts;
using internal::s3::kMinPartBytes;
using internal::s3::PartBytesOf;

using MaybeAnswer = std::optional<ServerResponse>;

class S3MultipartTest : public S3Fixture {};

TEST_F(S3MultipartTest, ChoosesPartsWithinTheLimits) {
  EXPECT_EQ(PartBytesOf(kMinPartBytes + 1), kMinPartBytes);
  EXPECT_EQ(PartBytesOf(kMinPartBytes * kMaxParts), kMinPartBytes);
  EXPECT_EQ(PartBytesOf(kMinPartBytes * kMaxParts + 1), kMinPartBytes + 1);
}

TEST_F(S3MultipartTest, KnowsACompletionWhoseAnswerWasLost) {
  const auto store = Open();
  LoseAnswers("POST", "uploadId", 1);
  EXPECT_OK(store->PutFileIfAbsent("a", LargeFile(), "t1"));
  // The upload is gone when it is completed again.
  EXPECT_EQ(server_.Count("POST /bucket/p/a?uploadId"), 2);
  EXPECT_EQ(server_.Count("PUT"), 3);
  EXPECT_EQ(service_.uploads(), 0U);
}

TEST_F(S3MultipartTest, LeavesAnUploadAloneThatMayBeComplete) {
  const auto store = Open({.deadline = absl::Milliseconds(500)});
  server_.Intercept([&](const ServerRequest& request) -> MaybeAnswer {
    const bool completes =
        request.method == "POST" && request.HasParameter("uploadId");
    if (!completes) return std::nullopt;
    return ServerResponse{.end = AnswerEnd::kNothing};
  });
  EXPECT_THAT(store->PutFileIfAbsent("a", LargeFile(), "t1"), Unavailable());
  EXPECT_EQ(server_.Count("DELETE"), 0);
  EXPECT_EQ(service_.uploads(), 1U);
  EXPECT_OK(store->AbortUploads("b/", absl::Now() + absl::Hours(1)));
  EXPECT_OK(store->AbortUploads("", absl::Now() - absl::Hours(1)));
  EXPECT_EQ(service_.uploads(), 1U);
  EXPECT_OK(store->AbortUploads("", absl::Now() + absl::Hours(1)));
  EXPECT_EQ(service_.uploads(), 0U);
}

TEST_F(S3MultipartTest, RetriesACompletionThatFailsWithStatus200) {
  const auto store = Open();
  server_.Intercept(
      [&, left = 2](const ServerRequest& request) mutable -> MaybeAnswer {
        const bool completes =
            request.method == "POST" && request.HasParameter("uploadId");
        if (!completes || left-- <= 0) return std::nullopt;
        return S3ErrorAnswer(200, "InternalError");
      });
  EXPECT_OK(store->PutFileIfAbsent("a", LargeFile(), "t1"));
  EXPECT_EQ(server_.Count("POST /bucket/p/a?uploadId"), 3);
}

TEST_F(S3MultipartTest, AbortsAnUploadThatFails) {
  const auto store = Open();
  server_.Intercept([&](const ServerRequest& request) -> MaybeAnswer {
    if (request.Parameter("partNumber") != "2") return std::nullopt;
    return S3ErrorAnswer(403, "AccessDenied");
  });
  EXPECT_THAT(store->PutFileIfAbsent("a", LargeFile(), "t1"),
              PermissionDenied("s3:PutObject"));
  EXPECT_EQ(service_.uploads(), 0U);
  EXPECT_THAT(store->Head("a"), NotFound());
}

TEST_F(S3MultipartTest, BeginsAnUploadAnewThatACollectorAborted) {
  const auto store = Open();
  server_.Intercept(
      [&, left = 1](const ServerRequest& request) mutable -> MaybeAnswer {
        const bool completes =
            request.method == "POST" && request.HasParameter("uploadId");
        if (!completes || left-- <= 0) return std::nullopt;
        ServerRequest abort = request;
        abort.method = "DELETE";
        server_.Handle(abort);
        return std::nullopt;
      });
  EXPECT_OK(store->PutFileIfAbsent("a", LargeFile(), "t1"));
  EXPECT_EQ(server_.Count("POST /bucket/p/a?uploads="), 2);
  EXPECT_EQ(Read(*store, "a", 2 * kMinPartBytes, 1).value(), "x");
}

TEST_F(S3MultipartTest, SendsNoPartOfAFileThatExists) {
  const auto store = Open();
  ASSERT_OK(store->PutIfAbsent("a", "x", "t1"));
  EXPECT_THAT(store->PutFileIfAbsent("a", LargeFile(), "t2"), AlreadyExists());
  EXPECT_EQ(server_.Count("POST"), 0);
  EXPECT_EQ(server_.Count("PUT"), 1);
}

TEST_F(S3MultipartTest, ReportsAFileThatIsMissingOrShrinks) {
  const auto store = Open();
  EXPECT_THAT(store->PutFileIfAbsent("a", dir_.path() + "/absent", "t1"),
              FailedPrecondition("/absent", "No such file"));
  const std::string path = LargeFile();
  server_.Intercept([&](const ServerRequest& request) -> MaybeAnswer {
    if (request.HasParameter("uploads")) {
      std::filesystem::resize_file(path, kMinPartBytes);
    }
    return std::nullopt;
  });
  EXPECT_THAT(store->PutFileIfAbsent("a", path, "t1"),
              FailedPrecondition("become shorter"));
  EXPECT_EQ(service_.uploads(), 0U);
}

}  // namespace
}  // namespace ckptdb::testing
