#include "ckptdb/db/store/post_taker.h"

#include "absl/strings/str_cat.h"
#include "ckptdb/db/store/save_checks.h"
#include "ckptdb/schema/status.h"

namespace ckptdb::internal {
namespace {

// Returns whether a file that could not be read may be a post all the same. The
// damaged, the foreign and the too large will not become readable. What could
// not be read for another reason stays for the next look.
bool MayPass(const absl::Status& error) {
  return !absl::IsDataLoss(error) && !absl::IsFailedPrecondition(error) &&
         !absl::IsPermissionDenied(error);
}

}  // namespace

std::vector<Usage::Unswept> PostTaker::passed_over() const {
  const MutexLock lock(&mutex_);
  return passed_over_;
}

absl::Status PostTaker::TakePosts() {
  const MutexLock lock(&mutex_);
  const absl::StatusOr<std::vector<FoundPost>> found =
      ReadPosts(folder_->files(), folder_->path());
  if (!found.ok()) PassOver("posts", found.status().message());
  CKPTDB_RETURN_IF_ERROR(found.status());
  // The first error ends the loop, so that no later post is applied before an
  // earlier one.
  for (const FoundPost& each : *found) {
    CKPTDB_RETURN_IF_ERROR(TakeFound(each));
  }
  return absl::OkStatus();
}

// Takes a post, or passes it over, and removes it. An error leaves it, and all
// that were posted after it, to the next look.
absl::Status PostTaker::TakeFound(const FoundPost& found) {
  const std::string path = absl::StrCat("posts/", found.name);
  const bool readable = found.post.ok();
  absl::Status taken = readable ? TakePost(*found.post) : found.post.status();
  if (!taken.ok()) PassOver(path, taken.message());
  // The post can never be applied: its step is gone or overwritten, or its
  // metrics would be too many.
  const bool useless =
      absl::IsNotFound(taken) || absl::IsInvalidArgument(taken);
  if (readable && !taken.ok() && !useless) return taken;
  if (!readable && MayPass(taken)) return absl::OkStatus();
  // The post is removed after the change is durable. A crash between the two
  // leaves it to be applied again, which changes nothing.
  const absl::Status removed =
      RemovePost(folder_->files(), folder_->path(), found.name);
  if (!removed.ok()) PassOver(path, removed.message());
  // Later posts must not be removed before it is.
  return readable ? removed : absl::OkStatus();
}

// Returns NotFound and InvalidArgument for a post that will never be of use;
// other errors are of the database.
absl::Status PostTaker::TakePost(const Post& post) {
  if (post.store_uuid != folder_->uuid()) {
    return absl::NotFoundError(absl::StrCat("the post belongs to store ",
                                            post.store_uuid, ", expected ",
                                            folder_->uuid()));
  }
  return editor_->ChangeRecord(
      post.version.step, [&](StepRecord* changed) -> absl::Status {
        // A fold keeps the state and is no obstacle; an overwritten step is
        // another state, whose metrics these are not.
        if (StateOf(*changed) != post.version) {
          return absl::NotFoundError(
              absl::StrCat("step ", post.version.step,
                           " was overwritten after the post was made"));
        }
        changed->pinned = changed->pinned || post.pin;
        for (const auto& [name, value] : post.metrics) {
          changed->metrics[name] = value;
        }
        return CheckMetrics(changed->metrics);
      });
}

void PostTaker::PassOver(const std::string& path, absl::string_view reason) {
  for (const Usage::Unswept& other : passed_over_) {
    if (other.path == path && other.reason == reason) return;
  }
  // The oldest goes, so that a folder full of foreign files takes a bounded
  // amount of memory.
  if (passed_over_.size() == kMaxPassedOver) {
    passed_over_.erase(passed_over_.begin());
  }
  passed_over_.push_back({path, std::string(reason)});
}

}  // namespace ckptdb::internal
