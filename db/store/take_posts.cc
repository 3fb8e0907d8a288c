// What an owner makes of the posts of its readers.
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "ckptdb/db/meta/posts.h"
#include "ckptdb/db/store/store_impl.h"
#include "ckptdb/schema/status.h"

namespace ckptdb {
namespace {

using internal::FoundPost;

// Whether what could not be read may be a post all the same.
bool MayPass(const absl::Status& error) {
  return !absl::IsDataLoss(error) && !absl::IsFailedPrecondition(error) &&
         !absl::IsPermissionDenied(error);
}

}  // namespace

// Remembers why, the newest kMaxPassedOver of them.
void Store::Impl::PassOver(const std::string& path, absl::string_view reason) {
  constexpr size_t kMaxPassedOver = 100;
  for (const UnsweptEntry& other : passed_over_) {
    if (other.path == path && other.reason == reason) return;
  }
  if (passed_over_.size() == kMaxPassedOver) {
    passed_over_.erase(passed_over_.begin());
  }
  passed_over_.push_back({path, std::string(reason)});
}

std::vector<UnsweptEntry> Store::Impl::posts_passed_over() const {
  const std::lock_guard<std::mutex> lock(posts_mutex_);
  return passed_over_;
}

// NotFound and InvalidArgument for a post that will never be of use; other
// errors are of the database.
absl::Status Store::Impl::TakePost(const Post& post) {
  if (post.store_uuid != uuid_) {
    return absl::NotFoundError("it is of another store");
  }
  return ChangeRecord(post.version.step, [&](StepRecord* changed) {
    if (StateOf(*changed) != post.version) {
      return absl::NotFoundError(absl::StrCat(
          "step ", post.version.step, " was written over after it was posted"));
    }
    changed->pinned = changed->pinned || post.pin;
    for (const auto& [name, value] : post.metrics) {
      changed->metrics[name] = value;
    }
    return internal::CheckMetrics(changed->metrics);
  });
}

// Takes a post, or passes it over, and removes it. An error leaves it, and all
// that were posted after it, to the next look.
absl::Status Store::Impl::TakeFound(const internal::FoundPost& found) {
  const std::string path = absl::StrCat("posts/", found.name);
  const bool readable = found.post.ok();
  absl::Status taken = readable ? TakePost(*found.post) : found.post.status();
  if (!taken.ok()) PassOver(path, taken.message());
  const bool useless =
      absl::IsNotFound(taken) || absl::IsInvalidArgument(taken);
  if (readable && !taken.ok() && !useless) return taken;
  if (!readable && MayPass(taken)) return absl::OkStatus();
  const absl::Status removed =
      internal::RemovePost(database_->files().get(), path_, found.name);
  if (!removed.ok()) PassOver(path, removed.message());
  // What was posted later must not be gone before it is.
  return readable ? removed : absl::OkStatus();
}

absl::Status Store::Impl::TakePosts() {
  const std::lock_guard<std::mutex> posts(posts_mutex_);
  const absl::StatusOr<std::vector<FoundPost>> found =
      internal::ReadPosts(database_->files().get(), path_);
  if (!found.ok()) PassOver("posts", found.status().message());
  CKPTDB_RETURN_IF_ERROR(found.status());
  for (const FoundPost& each : *found) {
    CKPTDB_RETURN_IF_ERROR(TakeFound(each));
  }
  return absl::OkStatus();
}

}  // namespace ckptdb
