// Takes the posts of readers into the owner's store: see "Posts" in
// docs/design.md. Internal to db/.
#ifndef CKPTDB_DB_STORE_POST_TAKER_H_
#define CKPTDB_DB_STORE_POST_TAKER_H_

#include <cstddef>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "ckptdb/db/base/mutex.h"
#include "ckptdb/db/meta/posts.h"
#include "ckptdb/db/store.h"
#include "ckptdb/db/store/step_editor.h"
#include "ckptdb/db/store/store_folder.h"
#include "ckptdb/schema/records/post.h"

namespace ckptdb::internal {

// Takes posts in, one look at the folder at a time, and remembers what it has
// passed over. Any thread may call it. The mutex is held over I/O, and taken
// before that of Committer.
class PostTaker {
 public:
  PostTaker(StoreFolder* folder, StepEditor* editor)
      : folder_(folder), editor_(editor) {}
  PostTaker(const PostTaker&) = delete;
  PostTaker& operator=(const PostTaker&) = delete;

  // See Store::TakePosts.
  absl::Status TakePosts();
  // The newest kMaxPassedOver posts that were passed over.
  std::vector<Usage::Unswept> passed_over() const;

 private:
  static constexpr size_t kMaxPassedOver = 100;

  absl::Status TakeFound(const FoundPost& found)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void PassOver(const std::string& path, absl::string_view reason)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status TakePost(const Post& post);

  StoreFolder* const folder_;
  StepEditor* const editor_;
  mutable Mutex mutex_;
  std::vector<Usage::Unswept> passed_over_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace ckptdb::internal

#endif  // CKPTDB_DB_STORE_POST_TAKER_H_
