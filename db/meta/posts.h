// SPDX-License-Identifier: Apache-2.0
// Posts: small files with which readers send metrics and pins to the owner;
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
#include "db/store.h"
#include "schema/records/post.h"

namespace ckptdb::internal {

// The limits of one look at the folder of posts, so that neither their number
// nor their size delays a save. Other posts wait for the next look.
inline constexpr size_t kMaxPostsAtOnce = 1024;
inline constexpr uint64_t kMaxPostBytesAtOnce = uint64_t{8} << 20;
inline constexpr size_t kMaxPostNamesAtOnce = 65'536;

// Writes a post under its name; it is durable on return. Returns
// InvalidArgument if its file would exceed kMaxSmallFileBytes.
absl::Status WritePost(rocksdb::FileSystem* files, const std::string& store,
                       const Post& post);

// Returns whether this is the name of a post's file, a UUID.
bool IsPostName(absl::string_view name);

// A file with the name of a post.
struct FoundPost {
  std::string name;
  absl::StatusOr<Post> post;  // or the reason why it cannot be used
};
// Returns the names of the first posts, within the limits above, in the order
// of posting. IsTimeUuid names contain that order; posts by older readers have
// random names, of which any may be returned.
absl::StatusOr<std::vector<std::string>> ListPosts(rocksdb::FileSystem* files,
                                                   const std::string& store);
// Returns the first of these posts, within the limits above, in the order of
// posting, followed by those that cannot be used. Links are not followed: only
// regular files can be used.
std::vector<FoundPost> ReadPosts(rocksdb::FileSystem* files,
                                 const std::string& store,
                                 const std::vector<std::string>& names);

// Changes the step's record as a post requests. Returns NotFound for a post of
// another store or of another state of the step, and InvalidArgument if the
// step would exceed kMaxMetrics; then the record is unchanged.
absl::Status ApplyPost(const Post& post, absl::string_view store_uuid,
                       StepRecord* record);

// Removes a post, but not a folder of that name. A power loss before SyncPosts
// may restore it. The file is moved to a folder in staging/, because some file
// systems take a millisecond to free its space; the next sweep does that.
absl::Status RemovePost(rocksdb::FileSystem* files, const std::string& store,
                        const std::string& name);
// Creates the folder that posts are moved to. Without it they are removed in
// place.
void MakeTakenPostsFolder(rocksdb::FileSystem* files, const std::string& store);
absl::Status SyncPosts(rocksdb::FileSystem* files, const std::string& store);

// Removes links and abandoned temporary files. `unswept` receives foreign
// entries and those that could not be removed.
void CleanPosts(rocksdb::FileSystem* files, const std::string& store,
                int64_t now_micros, std::vector<Usage::SkippedEntry>* unswept);

}  // namespace ckptdb::internal

#endif  // CKPTDB_DB_META_POSTS_H_
