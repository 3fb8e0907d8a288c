// SPDX-License-Identifier: Apache-2.0
// Takes readers' posts into the owner's store: see "Posts" in docs/design.md.
// Internal to db/.
#ifndef CKPTDB_DB_STORE_POST_TAKER_H_
#define CKPTDB_DB_STORE_POST_TAKER_H_

#include <cstddef>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "db/base/mutex.h"
#include "db/meta/posts.h"
#include "db/store.h"
#include "db/store/committer.h"
#include "db/store/step_catalog.h"
#include "db/store/store_folder.h"
#include "schema/records/post.h"

namespace ckptdb::internal {

// Takes the posts in the folder and remembers those that it has skipped. Any
// thread may call it. The mutex is held over I/O, and acquired before that of
// Committer.
class PostTaker {
 public:
  PostTaker(StoreFolder* folder, StepCatalog* catalog, Committer* committer)
      : folder_(folder), catalog_(catalog), committer_(committer) {}
  PostTaker(const PostTaker&) = delete;
  PostTaker& operator=(const PostTaker&) = delete;

  // See Store::TakePosts.
  absl::Status TakePosts();
  // Returns the newest kMaxSkipped posts that were skipped.
  std::vector<Usage::SkippedEntry> skipped() const;

 private:
  static constexpr size_t kMaxSkipped = 100;

  // Returns the readable posts, and discards those that can never be read.
  std::vector<Post> TakeReadable(std::vector<FoundPost> found)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Writes the changes that the posts request, in one batch, and removes their
  // files. Posts beyond the limits of one call stay.
  absl::Status Take(std::vector<Post> posts)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Discards posts that can never be applied: their step was deleted or
  // overwritten, or would have too many metrics.
  void DropUseless(std::vector<Post>* posts)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Removes the posts' files, those of the highest round first.
  absl::Status Remove(const std::vector<Post>& posts,
                      const std::vector<size_t>& rounds)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Removes a useless post.
  void Discard(const std::string& name, const absl::Status& reason)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Skip(const std::string& path, absl::string_view reason)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  StoreFolder* const folder_;
  StepCatalog* const catalog_;
  Committer* const committer_;
  mutable Mutex mutex_;
  std::vector<Usage::SkippedEntry> skipped_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace ckptdb::internal

#endif  // CKPTDB_DB_STORE_POST_TAKER_H_
