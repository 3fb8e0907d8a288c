// The order in which posts that were taken in are removed; internal to db/.
#ifndef CKPTDB_DB_META_POST_ROUNDS_H_
#define CKPTDB_DB_META_POST_ROUNDS_H_

#include <cstddef>
#include <vector>

#include "ckptdb/schema/records/post.h"

namespace ckptdb::internal {

// A loss of power may bring back any of the posts that were removed since the
// folder was last synced, and these are then applied again, in their order. So
// that the outcome is the same, the last post that sets a value stays until the
// others that set it are durably removed.
//
// Returns the round of each post, in the order of `posts`, which is that in
// which they were posted. The highest round is removed first, and the folder is
// synced after each. Posts of different values take one round, posts that
// replace each other's values two, whatever their number; a chain of posts of
// which each replaces a part of the one before takes more.
std::vector<size_t> RemovalRounds(const std::vector<Post>& posts);

// The maximum number of rounds of one look.
inline constexpr size_t kMaxRemovalRounds = 8;

// Does what RemovalRounds does, and leaves away the last posts until there are
// at most kMaxRemovalRounds.
std::vector<size_t> LimitRemovalRounds(std::vector<Post>* posts);

}  // namespace ckptdb::internal

#endif  // CKPTDB_DB_META_POST_ROUNDS_H_
