// SPDX-License-Identifier: Apache-2.0
#include "db/store/post_overlay.h"

#include <cmath>
#include <utility>

#include "db/meta/posts.h"

namespace ckptdb::internal {
namespace {

// Two NaNs count as equal.
bool IsSame(double a, double b) {
  return a == b || (std::isnan(a) && std::isnan(b));
}

Reader::Posted Compare(const StepRecord& before, const StepRecord& after) {
  Reader::Posted posted;
  for (const auto& [name, value] : after.metrics) {
    const auto found = before.metrics.find(name);
    if (found == before.metrics.end() || !IsSame(found->second, value)) {
      posted.metrics[name] = value;
    }
  }
  if (after.pinned != before.pinned) posted.pinned = after.pinned;
  if (after.ephemeral != before.ephemeral) posted.ephemeral = after.ephemeral;
  return posted;
}

}  // namespace

bool WaitingPosts::Refresh(rocksdb::FileSystem* files,
                           const std::string& store) {
  std::vector<std::string> names =
      ListPosts(files, store).value_or(std::vector<std::string>());
  if (names == names_) return false;
  std::vector<Post> posts;
  for (FoundPost& found : ReadPosts(files, store, names)) {
    if (found.post.ok()) posts.push_back(*std::move(found.post));
  }
  names_ = std::move(names);
  posts_ = std::move(posts);
  return true;
}

std::map<int64_t, OverlaidStep> OverlayPosts(const std::vector<Post>& posts,
                                             absl::string_view store_uuid,
                                             const Catalog& catalog) {
  std::map<int64_t, OverlaidStep> overlaid;
  for (const Post& post : posts) {
    const auto step = catalog.steps.find(post.version.step);
    if (step == catalog.steps.end()) continue;
    StepRecord* const record =
        &overlaid.try_emplace(step->first, OverlaidStep{step->second, {}})
             .first->second.record;
    // The owner skips posts that cannot be applied.
    ApplyPost(post, store_uuid, record).IgnoreError();
  }
  for (auto& [step, one] : overlaid) {
    one.posted = Compare(catalog.steps.at(step), one.record);
  }
  return overlaid;
}

}  // namespace ckptdb::internal
