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
#include "ckptdb/db/store.h"
#include "ckptdb/schema/records/post.h"

namespace ckptdb::internal {

// The maximum number of posts that are taken at once, so that a save is not
// held up by a folder full of them. Others wait for the next look.
inline constexpr size_t kMaxPostsAtOnce = 1024;

// Writes a post, which is durable on return, with its name. Returns
// InvalidArgument when it would be larger than kMaxSmallFileBytes.
absl::Status WritePost(rocksdb::FileSystem* files, const std::string& store,
                       const Post& post);

// Returns whether this is the name of a post's file, which is a UUID.
bool IsPostName(absl::string_view name);

// A file of a post's name.
struct FoundPost {
  std::string name;
  absl::StatusOr<Post> post;  // or the reason why it cannot be used
};
// Returns the posts that were posted first, at most kMaxPostsAtOnce, in the
// order in which they were posted; after them those that cannot be used.
// Links are not followed: what is not a regular file cannot be used.
absl::StatusOr<std::vector<FoundPost>> ReadPosts(rocksdb::FileSystem* files,
                                                 const std::string& store);

// Removes a post durably: it must not come back when a newer one was taken.
absl::Status RemovePost(rocksdb::FileSystem* files, const std::string& store,
                        const std::string& name);

// Removes links, and temporary files that were abandoned. `unswept` gets what
// else is in the folder that is not a post, and what could not be removed.
void CleanPosts(rocksdb::FileSystem* files, const std::string& store,
                int64_t now_micros, std::vector<Usage::Unswept>* unswept);

}  // namespace ckptdb::internal

#endif  // CKPTDB_DB_META_POSTS_H_
