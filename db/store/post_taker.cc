// SPDX-License-Identifier: Apache-2.0
#include "db/store/post_taker.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "db/meta/post_rounds.h"
#include "db/store/post_batch.h"
#include "schema/status.h"

namespace ckptdb::internal {
namespace {

// Returns whether a file that could not be read may still be a valid post.
// Damaged, foreign and oversized files never become readable. Files that failed
// for another reason stay for the next call.
bool MayBecomeReadable(const absl::Status& error) {
  return !absl::IsDataLoss(error) && !absl::IsFailedPrecondition(error) &&
         !absl::IsPermissionDenied(error);
}

}  // namespace

std::vector<Usage::SkippedEntry> PostTaker::skipped() const {
  const MutexLock lock(&mutex_);
  return skipped_;
}

absl::Status PostTaker::TakePosts() {
  const MutexLock lock(&mutex_);
  const absl::StatusOr<std::vector<std::string>> names =
      ListPosts(folder_->files(), folder_->path());
  if (!names.ok()) Skip("posts", names.status().message());
  CKPTDB_RETURN_IF_ERROR(names.status());
  if (names->empty()) return absl::OkStatus();
  MakeTakenPostsFolder(folder_->files(), folder_->path());
  absl::Status taken =
      Take(TakeReadable(ReadPosts(folder_->files(), folder_->path(), *names)));
  if (!taken.ok()) Skip("posts", taken.message());
  return taken;
}

// Posts are removed once the changes are durable. A crash in between makes the
// next owner apply them again, which changes nothing.
absl::Status PostTaker::Take(std::vector<Post> posts) {
  std::vector<size_t> rounds;
  {
    const MutexLock turn(committer_->changes());
    DropUseless(&posts);
    rounds = LimitRemovalRounds(&posts);
    PostBatch batch(folder_->uuid(), *catalog_);
    for (const Post& post : posts) CKPTDB_RETURN_IF_ERROR(batch.Apply(post));
    std::vector<StepRecord> changed = batch.TakeChanged();
    if (!changed.empty()) {
      CKPTDB_RETURN_IF_ERROR(
          committer_->Replace(std::move(changed), Spare::kKeep));
    }
  }
  return Remove(posts, rounds);
}

std::vector<Post> PostTaker::TakeReadable(std::vector<FoundPost> found) {
  std::vector<Post> posts;
  for (FoundPost& each : found) {
    if (each.post.ok()) {
      posts.push_back(*std::move(each.post));
    } else if (MayBecomeReadable(each.post.status())) {
      Skip(absl::StrCat("posts/", each.name), each.post.status().message());
    } else {
      Discard(each.name, each.post.status());
    }
  }
  return posts;
}

void PostTaker::DropUseless(std::vector<Post>* posts) {
  PostBatch batch(folder_->uuid(), *catalog_);
  std::vector<Post> useful;
  for (Post& post : *posts) {
    if (batch.full()) break;
    const absl::Status applied = batch.Apply(post);
    if (applied.ok()) {
      useful.push_back(std::move(post));
    } else {
      Discard(post.uuid, applied);
    }
  }
  *posts = std::move(useful);
}

void PostTaker::Discard(const std::string& name, const absl::Status& reason) {
  const std::string path = absl::StrCat("posts/", name);
  Skip(path, reason.message());
  const absl::Status removed =
      RemovePost(folder_->files(), folder_->path(), name);
  if (!removed.ok()) Skip(path, removed.message());
}

absl::Status PostTaker::Remove(const std::vector<Post>& posts,
                               const std::vector<size_t>& rounds) {
  if (posts.empty()) return absl::OkStatus();
  const size_t highest = *std::max_element(rounds.begin(), rounds.end());
  for (size_t round = highest + 1; round-- > 0;) {
    for (size_t i = 0; i < posts.size(); ++i) {
      if (rounds[i] != round) continue;
      const absl::Status removed =
          RemovePost(folder_->files(), folder_->path(), posts[i].uuid);
      // Posts of later rounds stay until this one is removed.
      CKPTDB_RETURN_IF_ERROR(removed);
    }
    CKPTDB_RETURN_IF_ERROR(SyncPosts(folder_->files(), folder_->path()));
  }
  return absl::OkStatus();
}

void PostTaker::Skip(const std::string& path, absl::string_view reason) {
  for (const Usage::SkippedEntry& other : skipped_) {
    if (other.path == path && other.reason == reason) return;
  }
  // Drops the oldest entry to bound the memory for a folder full of foreign
  // files.
  if (skipped_.size() == kMaxSkipped) skipped_.erase(skipped_.begin());
  skipped_.push_back({path, std::string(reason)});
}

}  // namespace ckptdb::internal
