// SPDX-License-Identifier: Apache-2.0
#include "db/meta/post_rounds.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <utility>

#include "absl/strings/string_view.h"

namespace ckptdb::internal {

std::vector<size_t> RemovalRounds(const std::vector<Post>& posts) {
  // The round of the last post that sets a value of a step: a metric, the pin
  // under an empty name, or the lifetime under a name that no metric has.
  constexpr absl::string_view kLifetime("\0", 1);
  std::map<std::pair<int64_t, absl::string_view>, size_t> last;
  std::vector<size_t> rounds(posts.size());
  for (size_t i = posts.size(); i-- > 0;) {
    const Post& post = posts[i];
    std::vector<absl::string_view> names;
    if (post.pin || post.unpin) names.emplace_back();
    if (post.lifetime != Post::Lifetime::kUnchanged) names.push_back(kLifetime);
    for (const auto& [name, value] : post.metrics) names.emplace_back(name);
    for (const absl::string_view name : names) {
      const auto winner = last.find({post.version.step, name});
      if (winner == last.end()) continue;
      rounds[i] = std::max(rounds[i], winner->second + 1);
    }
    // Keeps existing entries of `last`, because those posts are later.
    for (const absl::string_view name : names) {
      last.try_emplace({post.version.step, name}, rounds[i]);
    }
  }
  return rounds;
}

std::vector<size_t> LimitRemovalRounds(std::vector<Post>* posts) {
  while (true) {
    std::vector<size_t> rounds = RemovalRounds(*posts);
    if (std::all_of(rounds.begin(), rounds.end(),
                    [](size_t round) { return round < kMaxRemovalRounds; })) {
      return rounds;
    }
    // Each post takes at most one round, so this terminates.
    posts->resize(posts->size() / 2);
  }
}

}  // namespace ckptdb::internal
