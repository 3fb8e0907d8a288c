// SPDX-License-Identifier: Apache-2.0
#include "db/meta/post_rounds.h"

#include <gmock/gmock.h>

#include "absl/strings/str_cat.h"
#include "tests/support/seed.h"

namespace ckptdb::internal {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::Lt;
using ::testing::SizeIs;

Post MetricsPost(int64_t step, const std::vector<std::string>& names) {
  Post post;
  post.version = {step, 1};
  for (const std::string& name : names) post.metrics[name] = 0;
  return post;
}

Post PinPost(int64_t step, bool pin) {
  Post post;
  post.version = {step, 1};
  (pin ? post.pin : post.unpin) = true;
  return post;
}

TEST(PostRoundsTest, TheLastPostOfAValueStaysUntilTheOthersAreGone) {
  EXPECT_THAT(RemovalRounds({MetricsPost(1, {"auc"}), MetricsPost(2, {"auc"}),
                             MetricsPost(1, {"loss"}), PinPost(1, true)}),
              Each(0));  // of different values
  EXPECT_THAT(RemovalRounds({MetricsPost(1, {"auc"}), MetricsPost(1, {"auc"}),
                             MetricsPost(1, {"auc"}), PinPost(1, true),
                             PinPost(1, false)}),
              ElementsAre(1, 1, 0, 1, 0));
  EXPECT_THAT(
      RemovalRounds({MetricsPost(1, {"a", "b"}), MetricsPost(1, {"b", "c"}),
                     MetricsPost(1, {"c", "d"})}),
      ElementsAre(2, 1, 0));
}

TEST(PostRoundsTest, PostsBeyondTheMostRoundsAreLeftOut) {
  constexpr int kPosts = 100;
  std::vector<Post> chain;
  for (int i = 0; i < kPosts; ++i)
    chain.push_back(MetricsPost(1, {absl::StrCat(i), absl::StrCat(i + 1)}));
  const std::vector<Post> all = chain;
  EXPECT_THAT(LimitRemovalRounds(&chain), Each(Lt(kMaxRemovalRounds)));
  EXPECT_THAT(chain, SizeIs(kPosts / 16));
  EXPECT_TRUE(std::equal(chain.begin(), chain.end(), all.begin()));
}

// The values that posts set, by name; the pin has an empty name.
std::map<std::string, double> Applied(const std::vector<Post>& posts,
                                      const std::vector<bool>& present) {
  std::map<std::string, double> values;
  for (size_t i = 0; i < posts.size(); ++i) {
    if (!present[i]) continue;
    for (const auto& [name, value] : posts[i].metrics) values[name] = value;
    if (posts[i].pin || posts[i].unpin) values[""] = posts[i].pin ? 1 : 0;
    if (posts[i].lifetime != Post::Lifetime::kUnchanged) {
      values["lifetime"] = static_cast<int>(posts[i].lifetime);
    }
  }
  return values;
}

std::vector<Post> RandomPosts(std::mt19937_64* random) {
  std::vector<Post> posts;
  for (int i = 0; i < 8; ++i) {
    Post post = MetricsPost(1, {});
    for (const char* name : {"a", "b", "c", "d"}) {
      if ((*random)() % 3 == 0) post.metrics[name] = i;
    }
    if ((*random)() % 4 == 0)
      ((*random)() % 2 == 0 ? post.pin : post.unpin) = true;
    if ((*random)() % 4 == 0) {
      post.lifetime = (*random)() % 2 == 0 ? Post::Lifetime::kPermanent
                                           : Post::Lifetime::kEphemeral;
    }
    posts.push_back(std::move(post));
  }
  return posts;
}

TEST(PostRoundsTest, AnyPostsOfARoundMayComeBack) {
  std::mt19937_64 random(testing::TestSeed());
  for (int round_of_test = 0; round_of_test < 50; ++round_of_test) {
    const std::vector<Post> posts = RandomPosts(&random);
    const std::vector<size_t> rounds = RemovalRounds(posts);
    const auto expected = Applied(posts, std::vector<bool>(posts.size(), true));
    for (unsigned subset = 0; subset < 1U << posts.size(); ++subset) {
      for (size_t round = 0; round < kMaxRemovalRounds; ++round) {
        // Lower rounds are still there, higher ones are durably gone.
        std::vector<bool> present(posts.size());
        for (size_t i = 0; i < posts.size(); ++i) {
          present[i] = rounds[i] < round ||
                       (rounds[i] == round && ((subset >> i) & 1U) != 0);
        }
        for (const auto& [name, value] : Applied(posts, present))
          ASSERT_EQ(value, expected.at(name)) << "round " << round;
      }
    }
  }
}

}  // namespace
}  // namespace ckptdb::internal
