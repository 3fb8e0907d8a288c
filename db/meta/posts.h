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

// The limits of one look at the folder of posts, so that neither their number
// nor their size holds up a save. Other posts wait for the next look.
inline constexpr size_t kMaxPostsAtOnce = 1024;
inline constexpr uint64_t kMaxPostBytesAtOnce = uint64_t{8} << 20;
inline constexpr size_t kMaxPostNamesAtOnce = 65'536;

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
// Returns the names of the posts that were posted first, within the limits
// above, in that order. Names of IsTimeUuid tell which are first; of posts by
// older readers, which have random names, any may be among them.
absl::StatusOr<std::vector<std::string>> ListPosts(rocksdb::FileSystem* files,
                                                   const std::string& store);
// Returns the first of these posts, within the limits above, in the order in
// which they were posted; after them those that cannot be used. Links are not
// followed: what is not a regular file cannot be used.
std::vector<FoundPost> ReadPosts(rocksdb::FileSystem* files,
                                 const std::string& store,
                                 const std::vector<std::string>& names);

// Changes the record of its step as a post asks. Returns NotFound for a post of
// another store or of another state of the step, and InvalidArgument if the
// step would have more than kMaxMetrics; the record is unchanged then.
absl::Status ApplyPost(const Post& post, absl::string_view store_uuid,
                       StepRecord* record);

// Removes a post, and leaves a folder of that name alone. It may come back with
// a loss of power until SyncPosts. The file is moved to a folder of
// staging/, as some file systems take a millisecond to free its space; the next
// sweep does that.
absl::Status RemovePost(rocksdb::FileSystem* files, const std::string& store,
                        const std::string& name);
// Makes the folder to which posts are moved. Without it they are removed where
// they are.
void MakeTakenPosts(rocksdb::FileSystem* files, const std::string& store);
absl::Status SyncPosts(rocksdb::FileSystem* files, const std::string& store);

// Removes links, and temporary files that were abandoned. `unswept` gets what
// else is in the folder that is not a post, and what could not be removed.
void CleanPosts(rocksdb::FileSystem* files, const std::string& store,
                int64_t now_micros, std::vector<Usage::SkippedEntry>* unswept);

}  // namespace ckptdb::internal

#endif  // CKPTDB_DB_META_POSTS_H_
