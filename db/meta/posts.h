// Posts: small files by which readers tell the owner of metrics and pins;
// internal to db/.
#ifndef CKPTDB_DB_META_POSTS_H_
#define CKPTDB_DB_META_POSTS_H_

#include <rocksdb/file_system.h>

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "ckptdb/db/usage.h"
#include "ckptdb/schema/post.h"

namespace ckptdb::internal {

// The most posts that one listing of the folder reads; others wait for the
// next.
inline constexpr size_t kMaxPostsAtOnce = 1024;

// Durable on return, its name too. InvalidArgument when it would be larger than
// kMaxSmallFileBytes.
absl::Status WritePost(rocksdb::FileSystem* files, const std::string& store,
                       const Post& post);

// Whether a post has a file of such a name, that of a UUID.
bool IsPostName(absl::string_view name);

// A file of a post's name.
struct FoundPost {
  std::string name;
  absl::StatusOr<Post> post;  // or why it is none
};
// Reads at most kMaxPostsAtOnce posts, in the order in which they were posted.
// What is no regular file is no post, and not followed.
absl::StatusOr<std::vector<FoundPost>> ReadPosts(rocksdb::FileSystem* files,
                                                 const std::string& store);

// It is gone for good on return: an older post must not come back after it.
absl::Status RemovePost(rocksdb::FileSystem* files, const std::string& store,
                        const std::string& name);

// Removes links, and what is left of posts that were not written to their end.
// `unswept` gets what else is in the folder that is no post, and what could not
// be removed.
void CleanPosts(rocksdb::FileSystem* files, const std::string& store,
                int64_t now_micros, std::vector<UnsweptEntry>* unswept);

}  // namespace ckptdb::internal

#endif  // CKPTDB_DB_META_POSTS_H_
