// SPDX-License-Identifier: Apache-2.0
// Shows a reader the posts that the owner has not taken yet; internal to db/.
#ifndef CKPTDB_DB_STORE_POST_OVERLAY_H_
#define CKPTDB_DB_STORE_POST_OVERLAY_H_

#include <rocksdb/file_system.h>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "db/meta/catalog.h"
#include "db/reader.h"
#include "schema/records/post.h"
#include "schema/types.h"

namespace ckptdb::internal {

// The posts in a store's folder. Reads each once. Used by one thread at a time.
class WaitingPosts {
 public:
  // Lists the folder again, and returns whether its posts have changed. A
  // folder that cannot be listed counts as empty, because many readers lack the
  // permission.
  bool Refresh(rocksdb::FileSystem* files, const std::string& store);
  // Sorted by the time of posting.
  const std::vector<Post>& posts() const { return posts_; }

 private:
  std::vector<std::string> names_;
  std::vector<Post> posts_;
};

// A step as it will be once the owner has taken the waiting posts.
struct OverlaidStep {
  StepRecord record;
  Reader::Posted posted;
};

// Returns the steps that the posts change, without the posts that the owner
// will skip.
std::map<int64_t, OverlaidStep> OverlayPosts(const std::vector<Post>& posts,
                                             absl::string_view store_uuid,
                                             const Catalog& catalog);

}  // namespace ckptdb::internal

#endif  // CKPTDB_DB_STORE_POST_OVERLAY_H_
