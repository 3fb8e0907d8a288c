// SPDX-License-Identifier: Apache-2.0
#include "schema/records/post.h"

#include <functional>
#include <string>

#include "schema/records/record_checks.h"
#include "schema/types.h"
#include "tests/schema/samples.h"
#include "tests/support/status_matchers.h"

namespace ckptdb {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::SamplePost;
using ::testing::StartsWith;
using testing::StatusIs;

auto IsBadPost(const std::string& words) {
  return StatusIs(absl::StatusCode::kDataLoss,
                  AllOf(StartsWith("post: "), HasSubstr(words)));
}

absl::StatusOr<Post> DecodeChangedPost(
    const std::function<void(Post*)>& change) {
  Post post = SamplePost();
  change(&post);
  return DecodePost(internal::EncodeUnchecked(post));
}

TEST(PostRecord, RoundTrip) {
  ASSERT_OK_AND_ASSIGN(const Post all, DecodeChangedPost([](Post*) {}));
  EXPECT_EQ(all, SamplePost());
  const Post least{"a", "b", {0, 1}, 0, true, {}};
  ASSERT_OK_AND_ASSIGN(const Post back,
                       DecodePost(internal::EncodeUnchecked(least)));
  EXPECT_EQ(back, least);
  const Post unpin{"a", "b", {0, 1}, 0, false, {}, true};
  ASSERT_OK_AND_ASSIGN(const Post other,
                       DecodePost(internal::EncodeUnchecked(unpin)));
  EXPECT_EQ(other, unpin);
}

TEST(PostRecord, RejectsWrongFields) {
  EXPECT_THAT(DecodeChangedPost([](auto* p) { p->uuid = "../x"; }),
              IsBadPost("uuid"));
  EXPECT_THAT(DecodeChangedPost([](auto* p) { p->store_uuid = ""; }),
              IsBadPost("uuid"));
  EXPECT_THAT(DecodeChangedPost([](auto* p) { p->version.step = -1; }),
              IsBadPost("version has negative step -1"));
  EXPECT_THAT(DecodeChangedPost([](auto* p) { p->version.attempt = 0; }),
              IsBadPost("version has attempt 0"));
  EXPECT_THAT(DecodeChangedPost([](auto* p) { p->metrics[""] = 1; }),
              IsBadPost("name of a metric \"\" is empty"));
  EXPECT_THAT(DecodeChangedPost([](auto* p) {
                p->metrics.clear();
                p->pin = false;
              }),
              IsBadPost("metrics are empty, and no pin is requested"));
  EXPECT_THAT(DecodeChangedPost([](auto* p) { p->unpin = true; }),
              IsBadPost("unpin is set together with pin"));
}

TEST(PostRecord, MetricsBelowAtAndOverTheLimit) {
  const auto with = [](size_t count) {
    return DecodeChangedPost([count](Post* post) {
      post->metrics.clear();
      for (size_t i = 0; i < count; ++i) {
        post->metrics["m" + std::to_string(i)] = 1;
      }
    });
  };
  EXPECT_OK(with(kMaxMetrics - 1));
  EXPECT_OK(with(kMaxMetrics));
  EXPECT_THAT(with(kMaxMetrics + 1),
              IsBadPost("metrics have 4097 entries; the limit is 4096"));
}

}  // namespace
}  // namespace ckptdb
